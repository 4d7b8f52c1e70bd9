package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
)

// decider is the server or the process that counts an admission.
type decider struct {
	of      account
	process *Process
	server  *Server
}

// checkLimits replays the admissions of each key and decider in the order of the decider's clock:
// the exact model must admit them all. The shares of a fallback change with the number of instances.
// The model must admit all of its admissions under the shares of their times, and under the largest.
func (l *laws) checkLimits() {
	all := make(map[decider][]*admission)
	for _, a := range l.admitted {
		d := decider{of: a.of, server: a.server}
		if a.server == nil {
			d.process = a.process
		}
		all[d] = append(all[d], a)
	}
	for d, admitted := range all {
		for _, known := range histories(admitted, l.losses[d.server]) {
			l.checkLimit(d, known)
		}
	}
}

// histories splits the admissions of a server at its losses: the admissions of one part were all
// known to the server at one time. It leaves out admissions that were decided during a loss, and
// those from leases of before.
func histories(admitted []*admission, losses []loss) [][]*admission {
	var all [][]*admission
	known, next := []*admission(nil), 0
	admitted = slices.Clone(admitted)
	slices.SortStableFunc(admitted, func(a, b *admission) int { return a.ended.Compare(b.ended) })
	for _, lost := range losses {
		for ; next < len(admitted) && !admitted[next].ended.After(lost.to); next++ {
			known = append(known, admitted[next])
		}
		all = append(all, known)
		known = slices.DeleteFunc(slices.Clone(known),
			func(a *admission) bool { return lost.everything || !a.ended.Before(lost.from) })
		admitted = slices.DeleteFunc(admitted, func(a *admission) bool {
			before := lost.to
			if a.leased {
				before = before.Add(Lease + Budget)
			}
			return a.ended.After(lost.to) && !a.begun.After(before)
		})
	}
	return append(all, append(known, admitted[next:]...))
}

func (l *laws) checkLimit(d decider, admitted []*admission) {
	if len(admitted) == 0 {
		return
	}
	slices.SortStableFunc(admitted, func(a, b *admission) int { return cmp.Compare(a.at, b.at) })
	largest := slices.MaxFunc(admitted, func(a, b *admission) int {
		return cmp.Compare(a.limit.Burst(), b.limit.Burst())
	}).limit
	traits := algorithm.Of(largest.Algorithm())
	if (traits.Moves || traits.Bans) && (len(l.faults) > 0 || l.left || l.world.topology != One) {
		if traits.Moves {
			l.checkTwice(d, largest, admitted)
		}
		return // the start of a period is not known from outside: see checkTwice
	}
	l.replay(d, admitted)
	if d.process == nil {
		return
	}
	underLargest := make([]*admission, len(admitted))
	for i, a := range admitted {
		one := *a
		one.limit, underLargest[i] = largest, &one
	}
	l.replay(d, underLargest)
}

// replay asks the exact model for the admissions. What a fallback denied the model denies, too, by
// a second charge that never fits: like the store, it then converts the state to the share of that
// time. Otherwise the state would drain at the rate of the share before until the next admission.
func (l *laws) replay(d decider, admitted []*admission) {
	now := time.Time{}
	exact := limitstest.NewExact(func() time.Time { return now })
	never := backends.Charge{Scope: "never", Limit: limits.FixedWindow(limits.PerSecond(1)), Cost: 2}
	for _, a := range admitted {
		now = time.UnixMicro(a.at)
		charges := []backends.Charge{{
			Scope: a.of.scope, Key: a.of.key, Limit: a.limit, Cost: a.cost, Value: a.value,
		}}
		if a.denied {
			charges = append(charges, never)
		}
		out := make([]limits.Decision, len(charges))
		if err := exact.Take(l.world.t.Context(), charges, out); err != nil {
			l.world.t.Fatal(err)
		}
		if !a.denied && !out[0].Allowed {
			l.breaks("%d units of %v are admitted at %d beyond %v, by %v", a.cost, d.of, a.at, a.limit,
				d.name())
			return
		}
	}
}

// checkTwice checks that no period has more admissions than two windows. The opening of an anchored
// window is not known from outside: a taking whose answer was lost opens one, and so does a taking
// that is given back because another server denied.
func (l *laws) checkTwice(d decider, limit limits.Limit, admitted []*admission) {
	for i, first := range admitted {
		sum := int64(0)
		for _, a := range admitted[i:] {
			if !a.denied && a.at < first.at+limit.Rate().Period.Microseconds() {
				sum += a.cost
			}
		}
		if sum > 2*limit.Burst() {
			l.breaks("%d units of %v are admitted within a period from %d, beyond twice %v, by %v", sum,
				d.of, first.at, limit, d.name())
			return
		}
	}
}

func (d decider) name() string {
	if d.server != nil {
		return "server " + d.server.name
	}
	return d.process.name
}
