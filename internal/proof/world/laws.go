package world

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
)

// laws records all decisions of the processes, and reports those that break a law.
type laws struct {
	world *World

	mu       sync.Mutex
	counts   map[*Process]*counts
	admitted []*admission     // and what fallbacks denied
	running  map[holder]int64 // units in flight
	spending spending
	alone    map[account]*ownModel
	faults   []period
	losses   map[*Server][]loss
	heard    map[*Process]map[*Server]bool // the servers from which a process has had an answer
	left     bool                          // a client left before its request was decided
	settled  []limits.Settlement

	restarted bool // a process
}

type account struct{ scope, key string }

// holder is a party that must know units in flight: the servers, which know those that they
// allowed, or the fallback of a process, which knows all in flight in the process. Servers do not
// learn which units a fallback allowed.
type holder struct {
	of      account
	process *Process // nil: the servers
}

// counts is the expected content of the stats of a process.
type counts struct {
	verdicts  map[core.Verdict]int64
	decisions map[decisions]int64
	due       int64 // ends that are not yet reported
}

// decisions is a kind of equal decisions of one rule.
type decisions struct {
	rule    string
	allowed bool
	source  limits.Source
}

// admission is an allowed charge, or one that a fallback denied.
type admission struct {
	of       account
	limit    limits.Limit
	process  *Process
	server   *Server // nil: the process decided without a server
	leased   bool
	denied   bool // takes nothing, but converts a state of another share (DESIGN 5)
	at, cost int64
	value    uint64 // of a distinct limit

	begun, ended time.Time // of the decision
}

// ownModel is the exact model of a key that only one client charges, one request after the other.
type ownModel struct {
	now   time.Time
	exact *limitstest.Exact
}

// underWay is an allowed request that has not ended.
type underWay struct {
	holds   []holder
	ends    int64         // the number of its rules that have an end
	charged bool          // the rule Spending has charged it
	by      limits.Source // the source of that decision
	ticket  int64         // of the first unit that a server holds; 0: of none
	units   int64         // with consecutive tickets
}

// period is the time of a fault.
type period struct {
	from, to time.Time
	process  *Process // the process that it affects; nil: all
	server   *Server
	dead     *Process // the killed process: others notice the units that it holds
}

// concerns reports whether a process may notice the fault. A restarted process finds the units that
// its predecessor held.
func (f period) concerns(p *Process) bool { return f.process == nil || f.process.name == p.name }

// touchesUntil returns until when the fault may affect requests. A request with an end may be
// affected for longer: it may wait for ends, and find units held.
func (f period) touchesUntil(hasEnd bool) time.Time {
	if hasEnd {
		return f.to.Add(Recovery)
	}
	return f.to.Add(ratesRecovery)
}

// loss is a loss of data of a server: at to it has the data of from, or none.
type loss struct {
	from, to   time.Time
	everything bool
}

func newLaws(w *World) *laws {
	return &laws{
		world: w, counts: make(map[*Process]*counts), running: make(map[holder]int64),
		spending: newSpending(),
		alone:    make(map[account]*ownModel), losses: make(map[*Server][]loss),
		heard: make(map[*Process]map[*Server]bool),
	}
}

// breaks records a broken law.
func (l *laws) breaks(format string, args ...any) {
	l.world.breaks(fmt.Sprintf("after %v: ", l.world.age()) + fmt.Sprintf(format, args...))
}

// decided records a decision, and checks the laws of single decisions.
func (l *laws) decided(p *Process, r Request, begun time.Time, o core.Outcome) *underWay {
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(p, o)
	if _, settles := p.settles["spending"]; settles && l.mayHaveCharged(p, o) {
		l.spending.add(r.Key, 0, Estimate)
	}
	if o.Verdict() == core.Abandoned {
		l.left = true
		return nil
	}
	if p.dead() {
		return nil
	}
	healthy, quiet := !l.touchedLocked(begun, p, o), !l.faultyLocked(begun)
	// A request that is denied while ends of its key are in flight waits for them, and asks again.
	// A first request may have to connect to every server, which takes some round trips each.
	most := Budget
	if p.ends {
		most = 3 * Budget
	}
	if took > most || took > Budget/2 && healthy {
		l.breaks("%s: a decision took %v", p.name, took)
	}
	// Units that a request took on some servers before another denied may return later.
	if healthy && r.Alone && r.Waited && !o.Allowed() && (l.world.topology == One || o.Len() == 1) {
		l.breaks("%s: %s is denied though it has waited as it was told: %v", p.name, r.Key,
			o.RetryAfter())
	}
	if wait := o.RetryAfter(); o.Verdict() == core.Denied && wait <= 0 {
		l.breaks("%s: %s is denied, and told to wait for %v", p.name, r.Key, wait)
	}
	if r.Alone && len(l.faults) == 0 && p.program.Lease == 0 {
		l.isExactLocked(p, r, o)
	}
	u := new(underWay)
	for i := range o.Len() {
		d := o.At(i)
		if d.Source == limits.SourcePrimary {
			l.heard[p][l.world.serverAt(d.At)] = true
		}
		of := account{d.Rule(), d.Key}
		concurrent := d.Limit().Algorithm().Holds()
		if concurrent && !d.Allowed && d.Source == limits.SourcePrimary {
			l.world.trace.denied(begun, d.Cost)
		}
		if healthy && d.Source >= limits.SourceFallback && d.Source != limits.SourceNotAsked {
			l.breaks("%s: %s is decided by %v without a fault: %v", p.name, d.Rule(), d.Source, o.Err())
		}
		// With several servers a denied request may hold units until they are given back; its
		// decision is Transient.
		if r.Alone && concurrent && !d.Allowed && !d.Transient &&
			(healthy && d.Source == limits.SourcePrimary || d.Source == limits.SourceFallback) {
			l.breaks("%s: %v denies a client whose requests have all ended", p.name, of)
		}
		fits := d.Cost <= d.Limit().Burst()
		if most := longestWait(d.Limit()); healthy && !concurrent && fits && d.RetryAfter > most &&
			d.Source < limits.SourceFallback {
			l.breaks("%s: %s says to wait for %v, and %v never needs more than %v", p.name, r.Key,
				d.RetryAfter, d.Limit(), most)
		}
		if !o.Allowed() && d.Source == limits.SourceFallback && !concurrent && !p.settles[d.Rule()] {
			l.admitted = append(l.admitted, &admission{
				of: of, limit: d.Limit(), process: p, denied: true, at: d.At, cost: d.Cost,
				value: valueOf(r), begun: begun, ended: time.Now(),
			})
		}
		if !o.Allowed() || !d.Source.Counted() {
			continue
		}
		if concurrent {
			u.ends++
			own, servers := holder{of, p}, holder{of: of}
			u.holds = append(u.holds, own)
			l.running[own]++
			if d.Source != limits.SourceFallback {
				u.holds, u.ticket, u.units = append(u.holds, servers), d.Ticket, d.Cost
				l.world.trace.running(p, d.Ticket, d.Cost)
				l.running[servers]++
				// otherwise a server may have lost units
				if n := l.running[servers]; n > d.Limit().Burst() && quiet {
					l.breaks("the servers let %d units of %v run at once, of %v", n, of, d.Limit())
				}
			} else if n := l.running[own]; n > d.Limit().Burst() {
				l.breaks("%s: its fallback lets %d units of %v run at once, of %v", p.name, n, of, d.Limit())
			}
			continue
		}
		if p.settles[d.Rule()] { // the final cost is checked, not the estimate
			u.ends++
			if d.Rule() == "spending" {
				u.charged, u.by = true, d.Source
				if u.by != limits.SourceFallback {
					l.spending.add(r.Key, Estimate, Estimate)
				}
			}
			continue
		}
		a := &admission{
			of: of, limit: d.Limit(), process: p, leased: d.Source == limits.SourceLease, at: d.At,
			cost: d.Cost, value: valueOf(r),
			begun: begun, ended: time.Now(),
		}
		if d.Source != limits.SourceFallback {
			a.server = l.world.serverAt(d.At)
			if s := l.world.serverOf(of, kindOf(d)); l.world.topology != Ring && a.server != s {
				l.breaks("%v is decided by %s, and belongs to %s", of, a.server.name, s.name)
			}
		}
		l.admitted = append(l.admitted, a)
	}
	return u
}

// ended records that a request is over, before its process calls End.
func (l *laws) ended(p *Process, r Request, u *underWay) {
	if u == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[p].due += u.ends; u.ticket != 0 {
		l.world.trace.ended(p, u.ticket, u.units)
	}
	if u.charged {
		l.spending.ends(p, r, u.by)
	}
	for _, h := range u.holds {
		l.running[h]--
	}
}

// isExactLocked compares the decisions on a key that one client charges, in a world without faults,
// with the exact model: with one server all decisions, otherwise those from the denial cache.
func (l *laws) isExactLocked(p *Process, r Request, o core.Outcome) {
	for i := range o.Len() {
		d := o.At(i)
		of := account{d.Rule(), d.Key}
		if p.settles[d.Rule()] || d.Limit().Algorithm().Holds() || d.Source > limits.SourceDenialCache {
			continue
		}
		own := l.alone[of]
		if own == nil {
			own = new(ownModel)
			own.exact = limitstest.NewExact(func() time.Time { return own.now })
			l.alone[of] = own
		}
		want, charge := make([]limits.Decision, 1), []backends.Charge{{
			Scope: d.Rule(), Key: r.Key, Limit: d.Limit(), Cost: d.Cost, Value: valueOf(r),
		}}
		var err error
		if remembered := d.Source == limits.SourceDenialCache; remembered && d.Allowed {
			continue
		} else if remembered { // since the answer arrived, which took time
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
		primary := d.Source == limits.SourcePrimary
		same := want[0].Allowed == d.Allowed && want[0].RetryAfter == d.RetryAfter &&
			want[0].Remaining == d.Remaining &&
			want[0].ResetAfter == d.ResetAfter
		// transient denials are not cached
		early := !d.Allowed && want[0].Allowed && !(primary && d.Transient)
		if early || primary && !same && l.world.topology == One {
			l.breaks("%s: %s is decided\n\t%+v, the model says\n\t%+v", p.name, r.Key, d, want[0])
		}
	}
}

// longestWait returns the longest wait of a charge that fits: until the key is fresh, after the
// longest step back at which its clock stands still.
func longestWait(limit limits.Limit) time.Duration {
	period := limit.Rate().Period
	refill := time.Duration(float64(limit.Burst()) / float64(limit.Rate().Units) * float64(period))
	return max(refill, 2*period, limit.Longest()) + max(period, time.Second) + time.Millisecond
}

// runs returns how many units of a key that servers allowed are in flight.
func (l *laws) runs(of account) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[holder{of: of}]
}

// fault records the time of a fault.
func (l *laws) fault(f period) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}

// restarts records that a process stops cleanly.
func (l *laws) restarts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarted = true
}

// loses records that a server loses its data, or, if a replica takes over, its data younger than
// from.
func (l *laws) loses(s *Server, from time.Time, everything bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses[s] = append(l.losses[s], loss{from, time.Now(), everything})
}

// look makes a process look at all keys with held units, so that units of dead processes end in
// time although a clock has stepped back.
func (l *laws) look(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.running {
		for _, rule := range p.program.Rules {
			if rule.Name == h.of.scope && h.process == nil {
				charge := []backends.Charge{{Scope: h.of.scope, Key: h.of.key, Limit: rule.Limit}}
				p.bare.Peek(l.world.t.Context(), charge, make([]limits.Decision, 1))
			}
		}
	}
}

// touchedLocked reports whether a fault, or its consequences, may have affected a request that was
// just decided. All other requests are bystanders, and must notice nothing.
func (l *laws) touchedLocked(begun time.Time, p *Process, o core.Outcome) bool {
	now := time.Now()
	touches := func(s *Server, since time.Time) bool {
		if s == nil || l.world.topology == Ring { // a Ring moves keys to the servers that it reaches
			return true
		}
		if !l.othersAreWellLocked(p, s, since) {
			return true
		}
		for i := range o.Len() {
			d := o.At(i)
			if l.world.serverOf(account{d.Rule(), d.Key}, kindOf(d)) == s {
				return true
			}
		}
		return false
	}
	ends := hasEnd(p, o)
	return slices.ContainsFunc(l.faults, func(f period) bool {
		whom := f.concerns(p)
		if f.dead != nil {
			whom = f.dead == p || ends
		}
		return !now.Before(f.from) && begun.Before(f.touchesUntil(ends)) && whom &&
			touches(f.server, f.from)
	}) || slices.ContainsFunc(l.world.pathsOf(p), func(path *path) bool {
		return path.isStale(begun) && touches(path.server, begun)
	})
}

// othersAreWellLocked reports whether a process had an answer from a healthy server other than s
// since the fault of s. Otherwise its breaker may have opened for all servers, and a probe that
// asks s keeps it open.
func (l *laws) othersAreWellLocked(p *Process, s *Server, since time.Time) bool {
	for other := range l.heard[p] {
		if other != s && !slices.ContainsFunc(l.faults, func(f period) bool {
			return f.concerns(p) && f.dead == nil && (f.server == nil || f.server == other) &&
				f.touchesUntil(false).After(since)
		}) {
			return true
		}
	}
	return false
}

// faultyLocked reports whether a fault, or its consequences, was in force anywhere since begun.
func (l *laws) faultyLocked(begun time.Time) bool {
	return slices.ContainsFunc(l.faults,
		func(f period) bool { return !time.Now().Before(f.from) && begun.Before(f.touchesUntil(true)) })
}

func (l *laws) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.faultyLocked(time.Now())
}

// hasEnd reports whether a request has an end.
func hasEnd(p *Process, o core.Outcome) bool {
	for i := range o.Len() {
		if d := o.At(i); p.settles[d.Rule()] || d.Limit().Algorithm().Holds() {
			return true
		}
	}
	return false
}

// countLocked counts a decision as stats must.
func (l *laws) countLocked(p *Process, o core.Outcome) {
	c := l.counts[p]
	if c == nil {
		c = &counts{verdicts: make(map[core.Verdict]int64), decisions: make(map[decisions]int64)}
		l.counts[p], l.heard[p] = c, make(map[*Server]bool)
	}
	c.verdicts[o.Verdict()]++
	for i := range o.Len() {
		if d := o.At(i); d.Source != limits.SourceNotAsked {
			c.decisions[decisions{d.Rule(), d.Allowed, d.Source}]++
		}
	}
}

// check checks the laws about the whole life of the world.
func (l *laws) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkLimits()
	for h, n := range l.running {
		if n != 0 {
			l.breaks("%d units of %v still run", n, h.of)
		}
	}
	for p, c := range l.counts {
		l.checkStats(p, c)
		if c.due != 0 && !p.dead() {
			l.breaks("%s: %d ends more than were reported", p.name, c.due)
		}
	}
}

// checkStats compares the stats of a process with its decisions.
func (l *laws) checkStats(p *Process, want *counts) {
	got := counts{verdicts: make(map[core.Verdict]int64), decisions: make(map[decisions]int64)}
	count := func(v core.Verdict, n int64) {
		if n > 0 {
			got.verdicts[v] += n
		}
	}
	for _, limiter := range p.stats.Snapshot().Limiters {
		count(core.Allowed, limiter.Requests.Allowed)
		count(core.Denied, limiter.Requests.Denied)
		count(core.Unavailable, limiter.Requests.Unavailable)
		count(core.Abandoned, limiter.Requests.Abandoned)
		for _, rule := range limiter.Rules {
			for _, d := range rule.Decisions {
				if d.Count > 0 {
					got.decisions[decisions{rule.Name, d.Allowed, d.Source}] += d.Count
				}
			}
		}
	}
	if !maps.Equal(got.verdicts, want.verdicts) || !maps.Equal(got.decisions, want.decisions) {
		l.breaks("%s: its stats count\n\t%v %v, want\n\t%v %v", p.name, got.verdicts, got.decisions,
			want.verdicts, want.decisions)
	}
}
