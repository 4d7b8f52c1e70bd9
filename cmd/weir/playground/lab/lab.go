package lab

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/memory"
)

// Lab is a set of limiters, a stream of requests to all of them, and a clock. Make one with [New].
// It is not safe for concurrent use.
type Lab struct {
	plan   plan
	start  int64 // start of the clock, in microseconds since the Unix epoch
	now    int64 // microseconds since the start
	memory *memory.Memory
	panels []*panel
	agenda agenda
	chance *rand.Rand // for retries of clients
	turn   int        // index of the next cost of the plan
	sent   int        // number of requests, without retries
	events []Event
	lags   bool // the latest call of Advance could not do everything
}

// Event is an event in a panel.
type Event struct {
	Kind          EventKind
	Panel         int
	At            int64 // microseconds since the start
	Verdict       core.Verdict
	Cost          int64
	Attempt       int64         // 1 for the first attempt of a request
	Retry         time.Duration // 0: allowed, or limits.Never
	Delay         time.Duration
	Left          int64   // remaining units of the binding rule, afterwards
	Before, Level float64 // of the first rule, before and after; see [Gauge]
}

// EventKind is the kind of an [Event].
type EventKind uint8

const (
	// Request is a decision on a request.
	Request EventKind = iota
	// Turn is the end of a window or of a ban.
	Turn
	// Probe is a decision that takes nothing.
	Probe
)

// maxEvents is the approximate maximum of events of one call of Advance.
const maxEvents = 2000

// maxSteps is the maximum of steps of one call, including steps without events.
const maxSteps = 20_000

// New returns a Lab for s, and the mistakes in s. For a field with a mistake it uses the default. A
// panel with a mistake decides nothing.
func New(s Setup) (*Lab, Mistakes) {
	l := &Lab{plan: s.read()}
	l.chance = rand.New(rand.NewPCG(l.plan.seed, 1))
	period := max(l.plan.longest(), l.plan.limit.Rate().Period.Microseconds())
	// Start the clock at the start of windows, so that actions at their turn happen at their turn.
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	l.start = (day + period - 1) / period * period
	l.memory = memory.MustNew(memory.Options{
		MaxKeys: 64, MaxLogEntries: 4 * 10_000,
		Clock: func() time.Time { return time.UnixMicro(l.start + l.now) },
	})
	for i, p := range l.plan.panels {
		l.panels = append(l.panels, newPanel(l, i, p))
	}
	l.scheduleStream()
	return l, l.plan.mistakes
}

// Now returns the microseconds since the start.
func (l *Lab) Now() int64 { return l.now }

// Span returns the microseconds that show the effect of the limits: those of the setup, or three
// times the longest period.
func (l *Lab) Span() int64 {
	if l.plan.span > 0 {
		return l.plan.span
	}
	longest := l.plan.longest()
	if longest == 0 {
		longest = max(l.plan.lasts, l.plan.limit.Rate().Period.Microseconds())
	}
	return 3 * longest
}

// Advance advances the clock. It stops early if there are too many events.
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

// Approach advances the clock to a microsecond before the Retry-After of a panel's latest denial.
// Without such a denial it does nothing and returns false.
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
	l.send(move{at: l.now, n: min(max(n, 0), maxTogether), cost: cost})
}

// Events returns the events since the previous call. The result is valid until the next call of
// Advance or Send.
func (l *Lab) Events() []Event {
	events := l.events
	l.events = l.events[:0]
	return events
}

// AppendFrame appends a frame with the events since the previous one.
func (l *Lab) AppendFrame(b []byte, selected int) []byte {
	gauges := 0
	for _, p := range l.panels {
		gauges += len(p.rules)
	}
	events := l.Events()
	b = floats(b, float64(l.now), truth(l.lags), float64(l.armed(selected)), float64(len(l.panels)),
		float64(gauges), float64(len(events)))
	for _, p := range l.panels {
		b = floats(b, float64(p.allowed), float64(p.denied))
	}
	for _, p := range l.panels {
		for _, r := range p.rules {
			b = appendGauge(b, p.index, r.gauge())
		}
	}
	for i := range events {
		b = appendEvent(b, &events[i])
	}
	return b
}

// Panels returns descriptions of the panels.
func (l *Lab) Panels() []PanelInfo {
	infos := make([]PanelInfo, len(l.panels))
	for i, p := range l.panels {
		infos[i] = p.info()
	}
	return infos
}

// Answer returns the number-th answer of a panel, or the nearest one in its history. 0 is the
// latest. It returns false if there are no answers.
func (l *Lab) Answer(panel int, number int64) (Answer, bool) {
	if panel < 0 || panel >= len(l.panels) {
		return Answer{}, false
	}
	p := l.panels[panel]
	a, ok := p.history.answer(number)
	if ok {
		a.Proof = p.proof.text(l.now)
	}
	return a, ok
}

// Replay starts to replay a log through the current panels. name is for messages. Write the log to
// the Replay, compressed or not, and then call Result.
func (l *Lab) Replay(name string) (*Replay, error) {
	var panels []int
	var policies []*simulate.Policy
	for i, p := range l.panels {
		var rules []simulate.Limit
		for j, rule := range p.rules {
			rules = append(rules, simulate.Limit{Name: rule.name, Limit: rule.limit,
				NoDelay: l.plan.panels[i].rules[j].undelayed})
		}
		if len(rules) > 0 {
			policies = append(policies, simulate.Limits("panel "+strconv.Itoa(i+1), rules))
			panels = append(panels, i)
		}
	}
	if len(policies) == 0 {
		return nil, errors.New("no panel has a limit")
	}
	return newReplay(name, policies, panels), nil
}

// armed returns the microseconds until the Retry-After of a panel's latest denial, or −1.
func (l *Lab) armed(panel int) int64 {
	if panel < 0 || panel >= len(l.panels) {
		return -1
	}
	return l.panels[panel].proof.left(l.now)
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
		t.panel.decide(request{t.move.cost, t.move.value}, t.attempt)
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
		value := strconv.Itoa(l.sent)
		if n := len(l.plan.values); n > 0 {
			value = l.plan.values[l.sent%n]
		}
		l.sent++
		for _, p := range l.panels {
			p.decide(request{cost, value}, 1)
		}
	}
}
