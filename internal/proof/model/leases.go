package model

import (
	"fmt"
	"slices"
)

// LeaseState is where the block of a process is.
type LeaseState uint8

const (
	Idle     LeaseState = iota // there is no block
	Sent                       // the request is under way
	Answered                   // the units are charged, and the answer is under way
	Holding                    // the process spends the units
)

// Lease is what a process has of a leased limit. Times are in ticks, or in microseconds where a
// trace is replayed.
type Lease struct {
	State  LeaseState
	Units  int64 // requested, answered or left
	passed int64 // since the request, by the clock of the process
	slow   bool  // that clock has fallen behind since the request
	stands bool  // it stands still for a tick
	age    int   // ticks since the block was charged, by the server's clock
	late   bool  // the message has been under way for a tick

	back     int64 // units that are being returned; 0: no message is under way
	backAge  int
	backLate bool

	charged, replica [counts]int64 // at the server, by the ticks since then
}

const (
	period = 2
	term   = 2
	counts = period + term // ticks for which the server counts a unit
)

// Leases is the model of docs/proof/leases.pml.
type Leases struct {
	Limit  int64
	Faults int // how many more may happen
	Mistake
	WithReplica bool

	Leases []Lease

	// These say what has happened, and change nothing.
	spent     [period]int64 // by all processes, by the ticks since then
	forgotten int64         // units that a server has forgotten
}

// NewLeases returns the model at its start.
func NewLeases(processes int, limit int64, faults int) *Leases {
	return &Leases{Limit: limit, Faults: faults, Leases: make([]Lease, processes)}
}

func (l *Leases) clone() *Leases {
	c := *l
	c.Leases = slices.Clone(l.Leases)
	return &c
}

// Key identifies the state.
func (l *Leases) Key() string {
	key := []byte{byte(l.Faults), byte(l.forgotten), byte(l.spent[0]), byte(l.spent[1])}
	for i := range l.Leases {
		p := &l.Leases[i]
		key = append(key, byte(p.State), byte(p.Units), byte(p.passed), byte(p.age), byte(p.back),
			byte(p.backAge), flags(p.slow, p.stands, p.late, p.backLate))
		for age := range p.charged {
			key = append(key, byte(p.charged[age]), byte(p.replica[age]))
		}
	}
	return string(key)
}

// Check returns an error if the state breaks the promise of the model.
func (l *Leases) Check() error {
	if sum := l.spent[0] + l.spent[1]; sum > l.Limit+l.forgotten {
		return fmt.Errorf("%d units are spent within a period, of %d, and %d were forgotten",
			sum, l.Limit, l.forgotten)
	}
	return nil
}

func (l *Leases) slack() int64 {
	if l.Mistake == NoSlack {
		return 0
	}
	return 1
}

func (l *Leases) inTime(p *Lease) bool { return p.passed <= term-l.slack() }

func (l *Leases) counted() (n int64) {
	for i := range l.Leases {
		for _, units := range l.Leases[i].charged {
			n += units
		}
	}
	return n
}

func (p *Lease) beIdle() {
	*p = Lease{back: p.back, backAge: p.backAge, backLate: p.backLate, charged: p.charged,
		replica: p.replica}
}

// charge is the arrival of a request for a block.
func (l *Leases) charge(p *Lease) {
	if l.counted()+p.Units > l.Limit {
		p.beIdle()
		return
	}
	p.late = false
	p.charged[0] += p.Units
	p.State = Answered
}

func (p *Lease) giveBack() {
	if p.Units > 0 {
		p.back, p.backAge = p.Units, p.age
	}
	p.beIdle()
}

// answer is the arrival of the answer. After the term the units are returned.
func (l *Leases) answer(p *Lease) {
	if p.late = false; l.inTime(p) {
		p.State = Holding
	} else {
		p.giveBack()
	}
}

func (l *Leases) spend(p *Lease) {
	p.Units--
	l.spent[0]++
}

func (p *Lease) returned() { p.back, p.backAge, p.backLate = 0, 0, false }

// arriveBack is the arrival of units that are returned.
func (l *Leases) arriveBack(p *Lease) {
	times := 1
	if l.Mistake == Twice {
		times = 2
	}
	for range times {
		if p.backAge < counts && p.charged[p.backAge] >= p.back {
			p.charged[p.backAge] -= p.back
		}
	}
	p.returned()
}

// flush is the loss of all data.
func (l *Leases) flush() {
	l.forgotten += l.counted()
	for i := range l.Leases {
		l.Leases[i].charged, l.Leases[i].replica = [counts]int64{}, [counts]int64{}
	}
}

func (l *Leases) replicate() {
	for i := range l.Leases {
		l.Leases[i].replica = l.Leases[i].charged
	}
}

// failover puts the replica in the place of the server.
func (l *Leases) failover() {
	for i := range l.Leases {
		p := &l.Leases[i]
		for age := range p.charged {
			l.forgotten += max(0, p.charged[age]-p.replica[age])
		}
		p.charged = p.replica
	}
}

// tick is one tick of the server's clock.
func (l *Leases) tick() {
	for i := range l.Leases {
		p := &l.Leases[i]
		p.late = p.State == Sent || p.State == Answered
		if p.State == Answered || p.State == Holding {
			p.age = min(p.age+1, counts)
		}
		switch {
		case p.stands:
			p.stands = false
		case p.State != Idle:
			p.passed = min(p.passed+1, term+1)
		}
		if p.back > 0 {
			p.backLate = true
			p.backAge++
		}
		for _, units := range [...]*[counts]int64{&p.charged, &p.replica} {
			copy(units[1:], units[:])
			units[0] = 0
		}
	}
	l.spent = [period]int64{0, l.spent[0]}
}

// Next calls visit with each state that one transition leads to.
func (l *Leases) Next(visit func(transition string, next System)) {
	fault := l.Faults > 0
	to := func(name string, i int, change func(c *Leases, p *Lease)) {
		c := l.clone()
		change(c, &c.Leases[i])
		visit(fmt.Sprintf("%s(%d)", name, i), c)
	}
	failing := func(name string, i int, change func(c *Leases, p *Lease)) {
		if fault {
			to(name, i, func(c *Leases, p *Lease) { c.Faults--; change(c, p) })
		}
	}
	late := false
	for i := range l.Leases {
		p := &l.Leases[i]
		late = late || p.late || p.backLate
		switch p.State {
		case Idle:
			for n := int64(1); n <= min(3, l.Limit) && p.back == 0; n++ {
				to(fmt.Sprint("ask ", n), i, func(_ *Leases, p *Lease) { p.State, p.Units = Sent, n })
			}
		case Sent:
			to("charge", i, (*Leases).charge)
		case Answered:
			to("answer", i, (*Leases).answer)
		case Holding:
			if p.Units > 0 && l.inTime(p) {
				to("spend", i, (*Leases).spend)
			}
			if p.Units == 0 || !l.inTime(p) {
				to("close", i, func(_ *Leases, p *Lease) { p.giveBack() })
			}
		}
		if p.State == Sent || p.State == Answered {
			failing("lose", i, func(_ *Leases, p *Lease) { p.beIdle() })
		}
		if p.State != Idle {
			failing("crash", i, func(_ *Leases, p *Lease) { p.beIdle() })
		}
		if p.State != Idle && !p.slow {
			to("fall behind", i, func(_ *Leases, p *Lease) { p.slow, p.stands = true, true })
		}
		if p.back > 0 {
			to("arrive back", i, (*Leases).arriveBack)
			failing("lose back", i, func(_ *Leases, p *Lease) { p.returned() })
		}
	}
	if l.counted() > 0 {
		failing("flush", 0, func(c *Leases, _ *Lease) { c.flush() })
	}
	if l.WithReplica {
		to("replicate", 0, func(c *Leases, _ *Lease) { c.replicate() })
		failing("failover", 0, func(c *Leases, _ *Lease) { c.failover() })
	}
	if !late {
		to("tick", 0, func(c *Leases, _ *Lease) { c.tick() })
	}
}
