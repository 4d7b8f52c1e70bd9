package world

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/breaker"
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
	spent    map[account]*span // of the rule Spending
	alone    map[account]*ownModel
	faults   []period
	losses   map[*Server][]loss
	left     bool // a client has left before there was a decision
	settled  []core.Settlement

	restarted bool // a process
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

// span is how many units a key has spent.
type span struct{ least, most int64 }

// ownModel is the exact model of a key for which one client asks, one request after the other.
type ownModel struct {
	now   time.Time
	exact *backendtest.Exact
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
		world: w, asked: make(map[*Process]int), running: make(map[account]int64), spent: make(map[account]*span),
		alone: make(map[account]*ownModel), losses: make(map[*Server][]loss),
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
	if _, settles := p.settles["spending"]; settles && l.mayHaveCharged(p, o) {
		l.spentLocked(r).most += Estimate
	}
	if o.Verdict() == core.Abandoned {
		l.left = true
		return nil
	}
	if p.dead() {
		return nil
	}
	healthy, quiet := !l.touchedLocked(begun, p, r, o), !l.faultyLocked(begun)
	if hasEnd(o) && l.world.topology == Cluster && endsWaitForOtherServers {
		healthy = healthy && quiet
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
	if r.Alone && len(l.faults) == 0 && p.program.Lease == 0 {
		l.isExactLocked(p, r, o)
	}
	u := new(underWay)
	for i := range o.Len() {
		d := o.At(i)
		of := account{d.Rule, d.Key}
		concurrent := d.Limit.Algorithm() == core.AlgorithmConcurrent
		if healthy && d.Source >= core.SourceFallback && d.Source != core.SourceNotAsked {
			l.breaks("%s: %s is decided by %v without a fault: %v", p.name, d.Rule, d.Source, o.Err())
		}
		// On several servers a denied request may hold units until they are given back, and says so.
		if healthy && r.Alone && concurrent && !d.Allowed && !d.Transient && d.Source == core.SourcePrimary {
			l.breaks("%s: %v denies a client whose requests have all ended", p.name, of)
		}
		if most := longestWait(d.Limit); healthy && !concurrent && d.RetryAfter > most && d.Source < core.SourceFallback {
			l.breaks("%s: %s says to wait for %v, and %v never needs more than %v", p.name, r.Key, d.RetryAfter, d.Limit, most)
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
		a := &admission{
			of: of, limit: d.Limit, process: p, leased: d.Source == core.SourceLease, at: d.At, cost: d.Cost,
			begun: begun, ended: time.Now(),
		}
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
		spent := l.spentLocked(r)
		if p.dead() || len(l.faults) > 0 { // a refund may be lost, and so may a charge
			spent.least += min(Estimate, r.Final)
			spent.most += max(Estimate, r.Final)
		} else {
			spent.least += r.Final
			spent.most += r.Final
		}
	}
	for _, of := range u.holds {
		l.running[of]--
	}
}

func (l *laws) spentLocked(r Request) *span {
	of := account{"spending", r.Key}
	if l.spent[of] == nil {
		l.spent[of] = new(span)
	}
	return l.spent[of]
}

// mayHaveCharged reports whether servers may have charged, and kept, the estimate of a request
// whose end says nothing of it.
func (l *laws) mayHaveCharged(p *Process, o core.Outcome) bool {
	if p.dead() || o.Verdict() == core.Abandoned {
		return true
	}
	for i := range o.Len() {
		switch d := o.At(i); d.Source {
		case core.SourcePrimary: // on several servers a taking is given back, or the giving is lost
			if !o.Allowed() && l.world.topology != One && len(l.faults) > 0 {
				return true
			}
		case core.SourceFallback, core.SourceOpen, core.SourceClosed:
			return !errors.Is(o.Err(), breaker.ErrOpen)
		}
	}
	return false
}

// isExactLocked compares the decisions on a key for which one client asks, in a world without
// faults, with those of the exact model: on one server all of them, elsewhere what is remembered.
func (l *laws) isExactLocked(p *Process, r Request, o core.Outcome) {
	for i := range o.Len() {
		d := o.At(i)
		of := account{d.Rule, d.Key}
		if p.settles[d.Rule] || d.Limit.Algorithm() == core.AlgorithmConcurrent || d.Source > core.SourceDenialCache {
			continue
		}
		own := l.alone[of]
		if own == nil {
			own = new(ownModel)
			own.exact = backendtest.NewExact(func() time.Time { return own.now })
			l.alone[of] = own
		}
		want, charge := make([]core.Decision, 1), []core.Charge{{Scope: d.Rule, Key: r.Key, Limit: d.Limit, Cost: d.Cost}}
		var err error
		if remembered := d.Source == core.SourceDenialCache; remembered && d.Allowed {
			continue
		} else if remembered { // since the answer came, which took a while
			if ago := l.world.serverAt(d.At).now().Add(-5 * time.Millisecond); ago.After(own.now) {
				own.now = ago
			}
			err = own.exact.Peek(l.world.t.Context(), charge, want)
		} else if own.now = time.UnixMicro(d.At); o.Allowed() {
			err = own.exact.Take(l.world.t.Context(), charge, want)
		} else {
			err = own.exact.Peek(l.world.t.Context(), charge, want)
		}
		if err != nil {
			l.world.t.Fatal(err)
		}
		primary := d.Source == core.SourcePrimary
		same := want[0].Allowed == d.Allowed && want[0].RetryAfter == d.RetryAfter
		early := !d.Allowed && want[0].Allowed && !(primary && d.Transient) // what is transient is not remembered
		if early || primary && !same && l.world.topology == One {
			l.breaks("%s: %s is decided\n\t%+v, the model says\n\t%+v", p.name, r.Key, d, want[0])
		}
	}
}

// longestWait returns how long a charge that fits may have to wait: until all is there again,
// after the longest step of a clock for which a state stands still.
func longestWait(limit core.Limit) time.Duration {
	period := limit.Rate().Period
	refill := time.Duration(float64(limit.Burst()) / float64(limit.Rate().Units) * float64(period))
	return max(refill, 2*period) + max(period, time.Second) + time.Millisecond
}

// settlements returns those until now, and runs how many units of a key run.
func (l *laws) settlements() []core.Settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.settled)
}

func (l *laws) runs(of account) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[of]
}

// settles checks a settlement.
func (l *laws) settles(s core.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = append(l.settled, s)
	if s.Returned > max(0, s.Taken-s.Final) || s.Charged+s.Forgiven > max(0, s.Final-s.Taken) || s.Err != nil && s.Returned+s.Charged != 0 {
		l.breaks("settled %+v", s)
	}
}

// checkSpending asks the servers what keys have spent: what is returned was taken, and returned
// once; no taking and no charge is made twice. Without a fault it is what all requests have cost.
func (l *laws) checkSpending(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, want := range l.spent {
		server := l.world.serverOf(of, false)
		if len(l.losses[server]) > 0 || l.world.topology == Ring && len(l.faults) > 0 {
			continue
		}
		out := make([]core.Decision, 1)
		charge := []core.Charge{{Scope: of.scope, Key: of.key, Limit: spendingLimit}}
		err := errors.New("not asked")
		for tries := 0; err != nil && tries < 100; tries++ { // idle connections may have broken
			err = p.backend.Peek(l.world.t.Context(), charge, out)
		}
		if err != nil {
			l.breaks("peek at %v: %v", of, err)
			continue
		}
		spent := spendingLimit.Burst() - out[0].Remaining
		// A process that ends, and a fault, may lose blocks of leases.
		leased := p.program.Lease > 0 && (len(l.faults) > 0 || l.restarted)
		if spent < want.least || spent > want.most && !leased {
			l.breaks("%v has spent %d, want %d to %d", of, spent, want.least, want.most)
		}
	}
}

// fault says that a fault is in force, and that its consequences last until to.
func (l *laws) fault(f period) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}

// restarts says that a process is stopped properly.
func (l *laws) restarts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarted = true
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
	touches := func(s *Server) bool {
		if s == nil || l.world.topology == Ring { // which moves keys to the servers that it can reach
			return true
		}
		for i := range o.Len() {
			d := o.At(i)
			if l.world.serverOf(account{d.Rule, d.Key}, d.Limit.Algorithm() == core.AlgorithmConcurrent) == s {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(l.faults, func(f period) bool {
		return !now.Before(f.from) && begun.Before(f.to) && (f.process == nil || f.process == p) && touches(f.server)
	}) || slices.ContainsFunc(l.world.pathsOf(p), func(path *path) bool { return path.isStale(begun) && touches(path.server) })
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
