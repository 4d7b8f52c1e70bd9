package stats

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
)

// rule holds the counters of one rule.
type rule struct {
	name   string
	number uint16                    // index in Counters.rules
	delay  atomic.Pointer[histogram] // nil: no request had to wait
	ends   ends
	log    ruleLog // guarded by the lock of the denials
	failed [failure.Parts]atomic.Int64

	stripes [stripes]stripe
}

// kind classifies a decision. The kinds named alone* are for requests with one rule. They determine
// the verdict on the request, too, so it needs no counter of its own.
type kind uint8

const (
	notTaken kind = iota // allowed, nothing taken: another rule denied, or the cost is 0
	taken
	takenNear // allowed, and at most a fifth of the limit is left
	denied
	deniedMost  // denied by the binding rule
	aloneTaken  // allowed by the only rule
	aloneNear   // the same, and at most a fifth of the limit is left
	aloneDenied // denied by the only rule
	kinds       = iota
)

// stripe is one copy of the counters of a rule.
type stripe struct {
	cells [cells]atomic.Int64
	extra atomic.Int64 // units taken, less one for each decision that took
	_     [120]byte    // keeps stripes on different pairs of cache lines
}

// cells is the number of combinations of source, mode and kind.
const cells = int(limits.SourceNotAsked-1) * 2 * kinds

// cell returns the index of a combination. A denial cache only denies and leases only allow, so
// they share cells: see sourceOf.
func cell(source limits.Source, shadow bool, k kind) int {
	if source >= limits.SourceLease {
		source--
	}
	i := int(source) * 2
	if shadow {
		i++
	}
	return i*kinds + int(k)
}

// ends counts ends by their result. It has no total: a total less one of them could fall while
// another goroutine counts.
type ends struct{ done, returned, charged, forgiven, lost, dropped atomic.Int64 }

// sourceOf returns the source that cell c counts.
func sourceOf(c int) limits.Source {
	source := limits.Source(c / kinds / 2)
	if source > limits.SourceDenialCache ||
		source == limits.SourceDenialCache && !kind(c%kinds).denies() {
		source++
	}
	return source
}

func newRule(name string, number int) *rule { return &rule{name: name, number: uint16(number)} }

// kindOf classifies d, a decision on a request with the given verdict.
func kindOf(d *core.RuleDecision, verdict core.Verdict, alone, binds bool) kind {
	switch {
	case !d.Allowed && alone && verdict == verdictOf(d):
		return aloneDenied
	case !d.Allowed && binds:
		return deniedMost
	case !d.Allowed:
		return denied
	case verdict != core.Allowed, d.Cost == 0:
		return notTaken
	}
	k := taken
	if alone {
		k = aloneTaken
	}
	if isNear(d) {
		k++
	}
	return k
}

// isNear reports whether d leaves at most a fifth of the limit.
func isNear(d *core.RuleDecision) bool {
	return d.Source.Counted() && d.Remaining <= d.Limit().Burst()/5
}

// verdictOf returns the verdict on a request whose only rule denied it.
func verdictOf(d *core.RuleDecision) core.Verdict {
	switch {
	case d.Mode() == core.Shadow:
		return core.Allowed
	case d.Source == limits.SourceClosed:
		return core.Unavailable
	}
	return core.Denied
}

func (r *rule) count(to uint, k kind, d *core.RuleDecision) {
	s := &r.stripes[to]
	s.cells[cell(d.Source, d.Mode() == core.Shadow, k)].Add(1)
	if d.Cost != 1 && d.Source.Counted() && k.took() {
		s.extra.Add(d.Cost - 1)
	}
	if d.Delay > 0 && k.took() {
		r.delayed(d.Delay)
	}
}

func (k kind) took() bool {
	return k == taken || k == takenNear || k == aloneTaken || k == aloneNear
}

func (k kind) near() bool { return k == takenNear || k == aloneNear }

func (k kind) denies() bool { return k == denied || k == deniedMost || k == aloneDenied }

// verdict returns the verdict on requests that only one rule decided, by source. It returns false
// if k says nothing of the request.
func (k kind) verdict(source limits.Source, shadow bool) (core.Verdict, bool) {
	switch {
	case k == aloneTaken || k == aloneNear || k == aloneDenied && shadow:
		return core.Allowed, true
	case k == aloneDenied && source == limits.SourceClosed:
		return core.Unavailable, true
	case k == aloneDenied:
		return core.Denied, true
	}
	return 0, false
}

func (r *rule) delayed(d time.Duration) {
	h := r.delay.Load()
	if h == nil {
		r.delay.CompareAndSwap(nil, new(histogram))
		h = r.delay.Load()
	}
	h.add(d)
}

// each calls f for each combination with decisions, with their number.
func (r *rule) each(f func(source limits.Source, shadow bool, k kind, n int64)) {
	var sums [cells]int64
	for i := range r.stripes {
		for c := range sums {
			sums[c] += r.stripes[i].cells[c].Load()
		}
	}
	for c, n := range sums {
		if n != 0 {
			f(sourceOf(c), c/kinds%2 == 1, kind(c%kinds), n)
		}
	}
}

// denied returns the number of requests that the rule denied while it was enforced.
func (r *rule) denied() (denials int64) {
	for source := range limits.SourceClosed {
		if source == limits.SourceLease {
			continue // never denies
		}
		for _, k := range [...]kind{denied, deniedMost, aloneDenied} {
			for i := range r.stripes {
				denials += r.stripes[i].cells[cell(source, false, k)].Load()
			}
		}
	}
	return denials
}

// snapshot returns the counters of r, and adds to requests the requests that r counts.
func (r *rule) snapshot(state core.RuleState, inForce bool, requests *Requests) RuleSnapshot {
	shot := RuleSnapshot{Name: r.name, InForce: inForce}
	if inForce {
		shot.Scope, shot.Limit = state.Scope, state.Limit
		shot.Mode, shot.Override = state.Mode, state.Override
		shot.Local, shot.DenyAs503, shot.Hidden = state.Local, state.DenyAs503, state.Hidden
	}
	for i := range r.stripes {
		shot.Units += r.stripes[i].extra.Load()
	}
	var of [limits.SourceNotAsked][2][2]int64 // by source, shadow and allowed
	r.each(func(source limits.Source, shadow bool, k kind, n int64) {
		of[source][bit(shadow)][bit(!k.denies())] += n
		if k.took() && source.Counted() {
			shot.Units += n
		}
		if k.near() {
			shot.NearLimit += n
		}
		if k == deniedMost || k == aloneDenied && !shadow && source.Counted() {
			shot.Binding += n
		}
		if verdict, ok := k.verdict(source, shadow); ok {
			requests.add(verdict, n)
		}
	})
	shot.Decisions = shot.decisionCounts(&of)
	shot.Failures = Failures{
		r.failed[failure.Key].Load(), r.failed[failure.Limit].Load(), r.failed[failure.Cost].Load(),
		r.failed[failure.Backend].Load(), r.failed[failure.Fallback].Load(),
	}
	done, lost, dropped := r.ends.done.Load(), r.ends.lost.Load(), r.ends.dropped.Load()
	shot.Settlements = Settlements{
		done + lost + dropped, r.ends.returned.Load(), r.ends.charged.Load(),
		r.ends.forgiven.Load(), lost, dropped,
	}
	if h := r.delay.Load(); h != nil {
		shot.Delay = h.snapshot()
	} else {
		shot.Delay = new(histogram).snapshot()
	}
	return shot
}
