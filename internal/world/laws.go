package world

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/backendtest"
)

// laws sees all that the processes decide, and says what must not have happened.
type laws struct {
	world *World

	mu       sync.Mutex
	asked    map[*Process]int
	admitted []*admission
	running  map[account]int64 // units under way, by the keys of concurrency limits
	spent    map[account]int64 // of what servers have charged, what they must keep at least
	faults   []period
	losses   map[*Server][]loss
	left     bool // a client has left before there was a decision
}

type account struct{ scope, key string }

// admission is a charge that was allowed.
type admission struct {
	of       account
	limit    core.Limit
	process  *Process
	server   *Server // nil: the process decided by itself
	leased   bool
	at, cost int64

	begun, ended time.Time // the decision
}

// underWay is a request that was allowed and has not ended.
type underWay struct {
	holds    []account
	spending bool // a server has charged the estimate
}

// period is a stretch of time in which a fault, or what follows from it, is in force.
type period struct {
	from, to time.Time
	process  *Process // whom it touches; nil: all
	server   *Server
	back     bool // a clock steps back
}

// loss is when a server lost what it had: what it had at from is there again at to, or nothing.
type loss struct {
	from, to time.Time
	all      bool
}

func newLaws(w *World) *laws {
	return &laws{
		world: w, asked: make(map[*Process]int), running: make(map[account]int64), spent: make(map[account]int64), losses: make(map[*Server][]loss),
	}
}

// breaks reports a law that was broken now.
func (l *laws) breaks(format string, args ...any) {
	l.world.breaks(fmt.Sprintf("after %v: ", l.world.age()) + fmt.Sprintf(format, args...))
}

// decided records a decision, and checks what has to hold of every one.
func (l *laws) decided(p *Process, r Request, begun time.Time, o core.Outcome) *underWay {
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[p]++
	if o.Verdict() == core.Abandoned {
		l.left = true
	}
	if p.dead() || o.Verdict() == core.Abandoned {
		return nil
	}
	healthy, quiet := !l.touchedLocked(begun, p, r, o), !l.faultyLocked(begun)
	if hasEnd(o) && l.world.topology == Cluster && endsWaitForOtherServers {
		healthy = quiet
	}
	// A request that is denied while ends of its key are under way waits for them, and asks again.
	// One without a fault may have to connect to every server, which takes some round trips each.
	most := Budget
	if p.ends {
		most = 3 * Budget
	}
	if took > most || took > Budget/2 && healthy {
		l.breaks("%s: a decision took %v", p.name, took)
	}
	// What a request has taken on several servers before one of them denied may return later.
	if healthy && r.Alone && r.Waited && !o.Allowed() && (l.world.topology == One || o.Len() == 1) {
		l.breaks("%s: %s is denied though it has waited as it was told: %v", p.name, r.Key, o.RetryAfter())
	}
	u := new(underWay)
	for i := range o.Len() {
		d := o.At(i)
		of := account{d.Rule, r.Key}
		concurrent := d.Limit.Algorithm() == core.AlgorithmConcurrent
		if healthy && d.Source >= core.SourceFallback && d.Source != core.SourceNotAsked {
			l.breaks("%s: %s is decided by %v without a fault: %v", p.name, d.Rule, d.Source, o.Err())
		}
		// On several servers a denied request may hold units until they are given back, and says so.
		if healthy && r.Alone && concurrent && !d.Allowed && !d.Transient && d.Source == core.SourcePrimary {
			l.breaks("%s: %v denies a client whose requests have all ended", p.name, of)
		}
		if !o.Allowed() || !d.Source.Counted() {
			continue
		}
		if concurrent {
			u.holds = append(u.holds, of)
			l.running[of]++
			if n := l.running[of]; n > d.Limit.Burst() && quiet { // elsewhere a fallback may have admitted
				l.breaks("%d units of %v run at once, of %v", n, of, d.Limit)
			}
			continue
		}
		if p.settles[d.Rule] { // what it takes is not what it keeps
			u.spending = d.Source == core.SourcePrimary || d.Source == core.SourceLease
			continue
		}
		a := &admission{of: of, limit: d.Limit, process: p, leased: d.Source == core.SourceLease, at: d.At, cost: max(r.Cost, 1), begun: begun, ended: time.Now()}
		if d.Source != core.SourceFallback {
			a.server = l.world.serverAt(d.At)
			if s := l.world.serverOf(of, false); l.world.topology != Ring && a.server != s {
				l.breaks("%v is decided by %s, and belongs to %s", of, a.server.name, s.name)
			}
		}
		l.admitted = append(l.admitted, a)
	}
	return u
}

// ended says that a request is over. Its process has not been told yet.
func (l *laws) ended(p *Process, r Request, u *underWay) {
	if u == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.spending {
		kept := r.Final
		if p.dead() || len(l.faults) > 0 { // a refund may be lost, and so may a charge
			kept = min(Estimate, r.Final)
		}
		l.spent[account{"spending", r.Key}] += kept
	}
	for _, of := range u.holds {
		l.running[of]--
	}
}

// settles checks a settlement.
func (l *laws) settles(s core.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Returned > max(0, s.Taken-s.Final) || s.Charged+s.Forgiven > max(0, s.Final-s.Taken) || s.Err != nil && s.Returned+s.Charged != 0 {
		l.breaks("settled %+v", s)
	}
}

// checkSpending asks the servers what keys have spent: what is returned was taken, and returned
// once. Without a fault they have spent what all requests have cost.
func (l *laws) checkSpending(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, least := range l.spent {
		server := l.world.serverOf(of, false)
		if len(l.losses[server]) > 0 || l.world.topology == Ring && len(l.faults) > 0 {
			continue
		}
		out := make([]core.Decision, 1)
		charge := []core.Charge{{Scope: of.scope, Key: of.key, Limit: spendingLimit}}
		if err := p.backend.Peek(l.world.t.Context(), charge, out); err != nil {
			l.breaks("peek at %v: %v", of, err)
			continue
		}
		spent := spendingLimit.Burst() - out[0].Remaining
		if spent < least || spent > least && len(l.faults) == 0 && !l.left {
			l.breaks("%v has spent %d, want %d or, after faults, more", of, spent, least)
		}
	}
}

// fault says that a fault is in force, and that its consequences last until to.
func (l *laws) fault(f period) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}

// loses says that a server loses what it has, or, as a replica takes over, what is younger than
// from.
func (l *laws) loses(s *Server, from time.Time, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses[s] = append(l.losses[s], loss{from, time.Now(), all})
}

// steppedBack reports whether the clock of a server has.
func (l *laws) steppedBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.faults, func(f period) bool { return f.back })
}

// touchedLocked reports whether a fault, or what follows from one, may have touched a request that
// was decided just now. All others are bystanders, and must notice nothing.
func (l *laws) touchedLocked(begun time.Time, p *Process, r Request, o core.Outcome) bool {
	now := time.Now()
	return slices.ContainsFunc(l.faults, func(f period) bool {
		if now.Before(f.from) || !begun.Before(f.to) || f.process != nil && f.process != p {
			return false
		}
		if f.server == nil || l.world.topology == Ring { // which moves keys to the servers that it can reach
			return true
		}
		for i := range o.Len() {
			d := o.At(i)
			if l.world.serverOf(account{d.Rule, r.Key}, d.Limit.Algorithm() == core.AlgorithmConcurrent) == f.server {
				return true
			}
		}
		return false
	})
}

// faultyLocked reports whether a fault, or what follows from one, is in force anywhere since begun.
func (l *laws) faultyLocked(begun time.Time) bool {
	return slices.ContainsFunc(l.faults, func(f period) bool { return !time.Now().Before(f.from) && begun.Before(f.to) })
}

func (l *laws) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.faultyLocked(time.Now())
}

// endsWaitForOtherServers is a defect: one call carries ends to all servers of a Cluster, and the
// next waits until the last has answered. So bystanders of a silent server are denied by their own
// last requests, and wait for them. Set it to false once ends go to each server by themselves.
const endsWaitForOtherServers = true

// hasEnd reports whether a request has something to end.
func hasEnd(o core.Outcome) bool {
	for i := range o.Len() {
		if o.At(i).Limit.Algorithm() == core.AlgorithmConcurrent {
			return true
		}
	}
	return false
}

// check looks back at the whole life of the world.
func (l *laws) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkLimits()
	for of, n := range l.running {
		if n != 0 {
			l.breaks("%d units of %v still run", n, of)
		}
	}
	for p, n := range l.asked {
		var counted int64
		for _, limiter := range p.stats.Snapshot().Limiters {
			counted += limiter.Requests.Total()
		}
		if counted != int64(n) {
			l.breaks("%s was asked %d times, and its stats count %d", p.name, n, counted)
		}
	}
}

// decider is whose count an admission belongs to: a server's or a process's.
type decider struct {
	of      account
	process *Process
	server  *Server
}

// checkLimits replays what was admitted of each key, by whoever decides, in the order of its
// clock: the exact model must admit it all.
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

// histories divides what a server has admitted into what it knew of at one time. What was decided
// while it lost something is left out, and so is what processes spend from leases of before.
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
		known = slices.DeleteFunc(slices.Clone(known), func(a *admission) bool { return lost.all || !a.ended.Before(lost.from) })
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
	if limit := admitted[0].limit; limit.Algorithm() == core.AlgorithmAnchoredWindow && (len(l.faults) > 0 || l.left || l.world.topology != One) {
		l.checkTwice(d, limit, admitted)
		return
	}
	now := time.Time{}
	exact := backendtest.NewExact(func() time.Time { return now })
	for _, a := range admitted {
		now = time.UnixMicro(a.at)
		out := make([]core.Decision, 1)
		charge := []core.Charge{{Scope: a.of.scope, Key: a.of.key, Limit: a.limit, Cost: a.cost}}
		if err := exact.Take(l.world.t.Context(), charge, out); err != nil {
			l.world.t.Fatal(err)
		}
		if !out[0].Allowed {
			l.breaks("%d units of %v are admitted at %d beyond %v, by %v", a.cost, d.of, a.at, a.limit, d.name())
			return
		}
	}
}

// checkTwice checks that no period has more than two windows may admit. A taking whose answer
// was lost opens an anchored window, and so does one that is given back since another server has
// denied: so nobody outside knows when it opened.
func (l *laws) checkTwice(d decider, limit core.Limit, admitted []*admission) {
	for i, first := range admitted {
		sum := int64(0)
		for _, a := range admitted[i:] {
			if a.at < first.at+limit.Rate().Period.Microseconds() {
				sum += a.cost
			}
		}
		if sum > 2*limit.Burst() {
			l.breaks("%d units of %v are admitted within a period from %d, beyond twice %v, by %v", sum, d.of, first.at, limit, d.name())
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
