package model

import (
	"errors"
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

// Lease is a block of units that a process has taken. Times are in ticks, or in microseconds where
// a trace is replayed. A trace has a Lease for each block. In the model in ticks a process has one
// block at a time, and its Lease is used again.
type Lease struct {
	Process int // of a trace

	State  LeaseState
	Units  int64 // requested, answered or left
	passed int64 // since the request, by the clock of the process
	slow   bool  // that clock has fallen behind since the request
	stands bool  // it stands still for a tick
	age    int64 // since the block was charged, by the server's clock
	late   bool  // the message has been under way for a tick

	back     int64 // units that are being returned; 0: no message is under way
	backAge  int64
	backLate bool

	charged, replica dated // at the server
}

// dated is units by the instants at which something happened to them, oldest first.
type dated []amount

type amount struct{ at, units int64 }

// add adds units of an instant.
func (d *dated) add(at, units int64) {
	i := len(*d)
	for i > 0 && (*d)[i-1].at > at {
		i--
	}
	if i > 0 && (*d)[i-1].at == at {
		(*d)[i-1].units += units
		return
	}
	*d = slices.Insert(*d, i, amount{at, units})
}

// remove removes units of an instant, and reports whether there are so many.
func (d *dated) remove(at, units int64) bool {
	for i := range *d {
		if (*d)[i].at == at && (*d)[i].units >= units {
			if (*d)[i].units -= units; (*d)[i].units == 0 {
				*d = slices.Delete(*d, i, i+1)
			}
			return true
		}
	}
	return false
}

// drop removes all units up to an instant.
func (d *dated) drop(until int64) {
	for len(*d) > 0 && (*d)[0].at <= until {
		*d = (*d)[1:]
	}
}

func (d dated) sum() (n int64) {
	for _, e := range d {
		n += e.units
	}
	return n
}

// of returns the units of an instant.
func (d dated) of(at int64) int64 {
	for _, e := range d {
		if e.at == at {
			return e.units
		}
	}
	return 0
}

// key identifies d at an instant.
func (d dated) key(now int64) []byte {
	key := []byte{byte(len(d))}
	for _, e := range d {
		key = append(key, byte(now-e.at), byte(e.units))
	}
	return key
}

// Leases is the model of docs/proof/leases.pml.
type Leases struct {
	Limit  int64
	Period int64
	Term   int64 // for which a process spends units after asking for them
	Slack  int64 // by which that is shorter, since clocks differ
	Faults int   // how many more may happen
	Mistake
	WithReplica bool

	Leases []Lease
	now    int64 // by the server's clock

	// These say what has happened, and change nothing.
	spent     dated // by all processes
	forgotten dated // units that a server has forgotten, by the instants of their charges
}

// NewLeases returns the model at its start.
func NewLeases(processes int, limit int64, faults int) *Leases {
	return &Leases{
		Limit: limit, Period: 2, Term: 2, Slack: 1, Faults: faults, Leases: make([]Lease, processes),
	}
}

// counts is for how long the server counts a unit.
func (l *Leases) counts() int64 { return l.Period + l.Term }

func (l *Leases) clone() *Leases {
	c := *l
	c.Leases = slices.Clone(l.Leases)
	for i := range c.Leases {
		p := &c.Leases[i]
		p.charged, p.replica = slices.Clone(p.charged), slices.Clone(p.replica)
	}
	c.spent, c.forgotten = slices.Clone(l.spent), slices.Clone(l.forgotten)
	return &c
}

// Key identifies the state.
func (l *Leases) Key() string {
	key := append(l.spent.key(l.now), byte(l.Faults), byte(l.forgotten.sum()))
	for i := range l.Leases {
		p := &l.Leases[i]
		key = append(key, byte(p.State), byte(p.Units), byte(p.passed), byte(p.age), byte(p.back),
			byte(p.backAge), flags(p.slow, p.stands, p.late, p.backLate))
		key = append(append(key, p.charged.key(l.now)...), p.replica.key(l.now)...)
	}
	return string(key)
}

// Check returns an error if the state breaks the promise of the model.
func (l *Leases) Check() error {
	if sum, forgotten := l.spent.sum(), l.forgotten.sum(); sum > l.Limit+forgotten {
		return fmt.Errorf("%d units are spent within a period, of %d, and %d were forgotten",
			sum, l.Limit, forgotten)
	}
	return nil
}

func (l *Leases) slack() int64 {
	if l.Mistake == NoSlack {
		return 0
	}
	return l.Slack
}

func (l *Leases) inTime(p *Lease) bool { return p.passed <= l.Term-l.slack() }

func (l *Leases) counted() (n int64) {
	for i := range l.Leases {
		n += l.Leases[i].charged.sum()
	}
	return n
}

// Lose is the loss of a request, of its answer, or of a block.
func (p *Lease) Lose() {
	*p = Lease{Process: p.Process, back: p.back, backAge: p.backAge, backLate: p.backLate,
		charged: p.charged, replica: p.replica}
}

// Charge is the arrival of a request for a block. It reports whether there is room.
func (l *Leases) Charge(p *Lease) (fits bool) {
	if l.counted()+p.Units > l.Limit {
		p.Lose()
		return false
	}
	p.late = false
	p.charged.add(l.now, p.Units)
	p.State = Answered
	return true
}

// GiveBack is the end of a block. The units that are left are returned.
func (p *Lease) GiveBack() {
	if p.Units > 0 {
		p.back, p.backAge = p.Units, p.age
	}
	p.Lose()
}

// Back returns how many units are being returned.
func (p *Lease) Back() int64 { return p.back }

// Answer is the arrival of the answer. After the term the units are returned.
func (l *Leases) Answer(p *Lease) {
	if p.late = false; l.inTime(p) {
		p.State = Holding
	} else {
		p.GiveBack()
	}
}

// maySpend returns an error if no unit of p may be spent.
func (l *Leases) maySpend(p *Lease) error {
	switch {
	case p.State != Holding:
		return errors.New("units of a block are spent that the process does not hold")
	case p.Units == 0:
		return errors.New("more units are spent than the block has")
	case !l.inTime(p):
		return errors.New("units are spent after the term")
	}
	return nil
}

// Spend spends one unit. It returns an error if the unit may not be spent.
func (l *Leases) Spend(p *Lease) error {
	err := l.maySpend(p)
	p.Units--
	l.spent.add(l.now, 1)
	return err
}

// Now returns the instant, by the server's clock.
func (l *Leases) Now() int64 { return l.now }

// ChargedAt returns when the block was charged, by the server's clock. The process must hold it.
func (l *Leases) ChargedAt(p *Lease) int64 { return l.now - p.age }

// MayReturn reports whether units that a request has not used may return to the block.
func (l *Leases) MayReturn(p *Lease) bool { return p.State == Holding && l.inTime(p) }

// Return is the end of a request of a trace that did not use n units, which it had spent at an
// instant: they return to the block. A negative n undoes that.
func (l *Leases) Return(p *Lease, n, spent int64) {
	if p.Units += n; n > 0 {
		l.spent.remove(spent, n)
	} else if n < 0 && spent > l.now-l.Period {
		l.spent.add(spent, -n)
	}
}

// Refund is the same for units whose block is over, or that were charged without one: they return
// to the server. It returns how many fewer the server counts.
func (l *Leases) Refund(p *Lease, n, charged, spent int64) int64 {
	l.spent.remove(spent, n)
	if !p.charged.remove(charged, n) {
		return 0
	}
	return n
}

// Unreturned returns how many units of the block are neither spent nor returned nor lost.
func (p *Lease) Unreturned() int64 { return p.Units + p.back }

// LoseBack is the loss of units that are returned.
func (p *Lease) LoseBack() { p.back, p.backAge, p.backLate = 0, 0, false }

// ArriveBack is the arrival of units that are returned. It returns how many fewer the server
// counts, or an error if none is being returned.
func (l *Leases) ArriveBack(p *Lease) (n int64, err error) {
	if p.back == 0 {
		return 0, errors.New("units come back a second time")
	}
	times := 1
	if l.Mistake == Twice {
		times = 2
	}
	for range times {
		if p.charged.remove(l.now-p.backAge, p.back) {
			n += p.back
		}
	}
	p.LoseBack()
	return n, nil
}

// Crash is the death of a process.
func (l *Leases) Crash(process int) {
	for i := range l.Leases {
		if p := &l.Leases[i]; p.Process == process {
			p.Lose()
		}
	}
}

// Flush is the loss of all data.
func (l *Leases) Flush() {
	for i := range l.Leases {
		p := &l.Leases[i]
		for _, e := range p.charged {
			l.forget(e.at, e.units)
		}
		p.charged, p.replica = nil, nil
	}
}

func (l *Leases) forget(at, units int64) {
	if units > 0 {
		l.forgotten = append(l.forgotten, amount{at, units})
	}
}

func (l *Leases) replicate() {
	for i := range l.Leases {
		l.Leases[i].replica = slices.Clone(l.Leases[i].charged)
	}
}

// failover puts the replica in the place of the server.
func (l *Leases) failover() {
	for i := range l.Leases {
		p := &l.Leases[i]
		for _, e := range p.charged {
			l.forget(e.at, e.units-p.replica.of(e.at))
		}
		p.charged = slices.Clone(p.replica)
	}
}

// pass lets the server's clock move on.
func (l *Leases) pass(d int64) {
	l.now += d
	for i := range l.Leases {
		p := &l.Leases[i]
		if p.State == Answered || p.State == Holding {
			p.age = min(p.age+d, l.counts())
		}
		if p.back > 0 {
			p.backAge += d
		}
		p.charged.drop(l.now - l.counts())
		p.replica.drop(l.now - l.counts())
	}
	l.spent.drop(l.now - l.Period)
}

// Pass is time of any length between the events of a trace. Units that were forgotten matter for
// as long as the server would have counted them.
func (l *Leases) Pass(d int64) {
	l.pass(d)
	for i := range l.Leases {
		if p := &l.Leases[i]; p.State != Idle {
			p.passed += d
		}
	}
	until := l.now - l.counts()
	l.forgotten = slices.DeleteFunc(l.forgotten, func(e amount) bool { return e.at <= until })
}

// tick is one tick of the server's clock.
func (l *Leases) tick() {
	l.pass(1)
	for i := range l.Leases {
		p := &l.Leases[i]
		p.late = p.State == Sent || p.State == Answered
		switch {
		case p.stands:
			p.stands = false
		case p.State != Idle:
			p.passed = min(p.passed+1, l.Term+1)
		}
		p.backLate = p.back > 0
	}
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
			to("charge", i, func(c *Leases, p *Lease) { c.Charge(p) })
		case Answered:
			to("answer", i, (*Leases).Answer)
		case Holding:
			if l.maySpend(p) == nil {
				to("spend", i, func(c *Leases, p *Lease) { _ = c.Spend(p) })
			}
			if p.Units == 0 || !l.inTime(p) {
				to("close", i, func(_ *Leases, p *Lease) { p.GiveBack() })
			}
		}
		if p.State == Sent || p.State == Answered {
			failing("lose", i, func(_ *Leases, p *Lease) { p.Lose() })
		}
		if p.State != Idle {
			failing("crash", i, func(_ *Leases, p *Lease) { p.Lose() })
		}
		if p.State != Idle && !p.slow {
			to("fall behind", i, func(_ *Leases, p *Lease) { p.slow, p.stands = true, true })
		}
		if p.back > 0 {
			to("arrive back", i, func(c *Leases, p *Lease) { _, _ = c.ArriveBack(p) })
			failing("lose back", i, func(_ *Leases, p *Lease) { p.LoseBack() })
		}
	}
	if l.counted() > 0 {
		failing("flush", 0, func(c *Leases, _ *Lease) { c.Flush() })
	}
	if l.WithReplica {
		to("replicate", 0, func(c *Leases, _ *Lease) { c.replicate() })
		failing("failover", 0, func(c *Leases, _ *Lease) { c.failover() })
	}
	if !late {
		to("tick", 0, func(c *Leases, _ *Lease) { c.tick() })
	}
}
