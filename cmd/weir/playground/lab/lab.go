package lab

import (
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/memory"
)

// Lab is limiters, a stream of requests to all of them, and a clock. Make one by [New]. It
// is not safe for concurrent use.
type Lab struct {
	plan   plan
	start  int64 // of the clock, in microseconds since the Unix epoch
	now    int64 // microseconds since the start
	memory *memory.Memory
	panels []*panel
	agenda agenda
	chance *rand.Rand // when clients come back
	turn   int        // which cost of the plan is next
	events []Event
	lags   bool // the last call of Advance could not do all
}

// Event is something that happened.
type Event struct {
	Kind          EventKind
	Panel         int
	At            int64 // microseconds since the start
	Verdict       core.Verdict
	Cost          int64
	Attempt       int64         // 1 for the first time that a request comes
	Retry         time.Duration // 0: it was allowed, or limits.Never
	Delay         time.Duration
	Left          int64   // units of the rule that binds, afterwards
	Before, Level float64 // of the first rule, before and afterwards; see [Gauge]
}

// EventKind says what an [Event] is.
type EventKind uint8

const (
	// Request is a decision on a request.
	Request EventKind = iota
	// Turn is a window, or a ban, that has ended.
	Turn
	// Probe is what a request at this instant would get. It takes nothing.
	Probe
)

// maxEvents is how many events one call of Advance causes at most, or a few more.
const maxEvents = 2000

// maxSteps is how much it does at most, also what causes no event.
const maxSteps = 20_000

// New returns a Lab that does what s says, and what is wrong with s. Where something is
// wrong, the Lab does what the zero Setup says. A panel that is wrong decides nothing.
func New(s Setup) (*Lab, Mistakes) {
	l := &Lab{plan: s.read()}
	l.chance = rand.New(rand.NewPCG(l.plan.seed, 1))
	period := l.plan.limit.Rate().Period.Microseconds()
	for _, p := range l.plan.panels {
		for _, r := range p.rules {
			period = max(period, r.limit.Rate().Period.Microseconds())
		}
	}
	// The clock starts as windows do, so that what is to happen at their turn does.
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	l.start = (day + period - 1) / period * period
	l.memory = memory.MustNew(memory.Options{
		MaxKeys: 64, MaxLogEntries: 4 * 10_000,
		Clock: func() time.Time { return time.UnixMicro(l.start + l.now) },
	})
	for i, p := range l.plan.panels {
		l.panels = append(l.panels, l.newPanel(i, p))
	}
	l.scheduleStream()
	return l, l.plan.mistakes
}

// Now returns the microseconds since the start.
func (l *Lab) Now() int64 { return l.now }

// Span returns how many microseconds show what the limits do: those of the setup, otherwise
// three of the longest period.
func (l *Lab) Span() int64 {
	if l.plan.span > 0 {
		return l.plan.span
	}
	longest := int64(0)
	for _, p := range l.panels {
		for _, r := range p.rules {
			longest = max(longest, r.limit.Rate().Period.Microseconds())
		}
	}
	if longest == 0 {
		longest = max(l.plan.lasts, l.plan.limit.Rate().Period.Microseconds())
	}
	return 3 * longest
}

// Advance lets so many microseconds pass. It stops earlier if too much happens.
func (l *Lab) Advance(by int64) {
	until := l.now + max(0, by)
	l.lags = false
	for n := 0; ; n++ {
		if len(l.events) >= maxEvents || n >= maxSteps {
			l.lags = true
			return
		}
		t, ok := l.agenda.next(until)
		if !ok {
			break
		}
		l.now = max(l.now, t.at)
		l.do(t)
	}
	l.now = until
}

// Approach lets time pass until a microsecond before the Retry-After of the latest denial
// of a panel. It returns false, and nothing happens, if no denial says when.
func (l *Lab) Approach(panel int) bool {
	wait := l.armed(panel)
	if wait < 1 {
		return false
	}
	l.Advance(wait - 1)
	return true
}

// Send sends n requests now, to all panels.
func (l *Lab) Send(n, cost int64) {
	l.send(move{l.now, min(max(n, 0), maxTogether), cost})
}

// Events returns what has happened since the last call. What it returns is good until the
// next call of Advance or Send.
func (l *Lab) Events() []Event {
	events := l.events
	l.events = l.events[:0]
	return events
}

func (l *Lab) do(t task) {
	switch t.kind {
	case taskEnd:
		t.outcome.End(core.Result{})
	case taskTurn:
		t.panel.turn(t.rule)
	case taskProbe:
		t.panel.probe(t)
	case taskRetry:
		t.panel.decide(t.move.cost, t.attempt)
	case taskSend:
		l.send(t.move)
		l.scheduleStream()
	}
}

func (l *Lab) scheduleStream() {
	if m, ok := l.plan.traffic.next(); ok {
		l.agenda.add(task{at: m.at, kind: taskSend, move: m})
	}
}

// send sends requests to all panels, one after the other.
func (l *Lab) send(m move) {
	for range m.n {
		cost := m.cost
		if cost == 0 {
			cost = l.plan.costs[l.turn%len(l.plan.costs)]
			l.turn++
		}
		for _, p := range l.panels {
			p.decide(cost, 1)
		}
	}
}
