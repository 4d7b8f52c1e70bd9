package model

import (
	"errors"
	"fmt"
	"slices"
)

// UnitState is what a process knows of a unit.
type UnitState uint8

const (
	Free    UnitState = iota // no request has the id
	Asked                    // the taking has no answer yet
	Running                  // the request runs
	Ended                    // the unit is to be released
	Again                    // it is to be released a second time, once nothing is under way
)

// Unit is a unit of a concurrency limit under one id. Times are in ticks, or in microseconds where
// a trace is replayed.
type Unit struct {
	Process int
	State   UnitState
	Held    int64 // until Redis forgets it; 0: it is not held

	// Messages under way: until they are lost. 0: none.
	Taking, Renewal, Release int64

	Replica int64 // Held, as the replica knows it

	late  bool  // a taking or renewal without an answer may arrive after the release
	waits int64 // until the second release

	// These say what has happened, and change nothing.
	lost     bool  // Redis has not known the unit while its request ran
	orphan   int64 // for how long a held unit has had no request and no message
	reported bool  // the end of the request has been reported
}

// Holds is the model of docs/proof/holds.pml.
type Holds struct {
	Limit  int
	Hold   int64 // HoldTime
	Flight int64 // a message arrives within this time, or is lost
	Step   int64 // by which the clock steps
	Faults int   // how many more may happen
	Mistake
	WithReplica, WithClock bool

	Units   []Unit
	stepped bool  // no taking has arrived since the clock stepped back
	broken  error // the promise that a transition has broken
}

// Mistake is a mistake that is planted in a model.
type Mistake string

// The mistakes that docs/proof/README.md lists.
const (
	Correct      Mistake = ""
	NoGeneration Mistake = "an id is used again while a release of it is under way"
	Adopts       Mistake = "a renewal extends every unit of its process"
	Keeps        Mistake = "units that come back with a replica are held for ever"
	NoSlack      Mistake = "a lease outlives its term by the error of the clock"
	Twice        Mistake = "what is given back is counted twice"
)

// NewHolds returns the model at its start: a number of ids, dealt to processes in turn.
func NewHolds(processes, ids, limit, faults int) *Holds {
	h := &Holds{Limit: limit, Hold: 3, Flight: 1, Step: 2, Faults: faults}
	for id := range ids {
		h.Units = append(h.Units, Unit{Process: id % processes})
	}
	return h
}

func (h *Holds) clone() *Holds {
	c := *h
	c.Units = slices.Clone(h.Units)
	return &c
}

// Key identifies the state.
func (h *Holds) Key() string {
	key := make([]byte, 0, 9*len(h.Units)+2)
	for i := range h.Units {
		u := &h.Units[i]
		key = append(key, byte(u.State), byte(u.Held), byte(u.Taking), byte(u.Renewal),
			byte(u.Release), byte(u.waits), byte(u.Replica), byte(u.orphan),
			flags(u.late, u.lost, u.reported))
	}
	return string(append(key, byte(h.Faults), flags(h.stepped)))
}

// flags returns a byte whose bits are values.
func flags(values ...bool) (b byte) {
	for i, v := range values {
		if v {
			b |= 1 << i
		}
	}
	return b
}

// Check returns an error if the state breaks a promise of the model.
func (h *Holds) Check() error {
	safe := 0
	for i := range h.Units {
		u := &h.Units[i]
		if u.State == Running && !u.lost {
			safe++
		}
		if u.orphan >= h.Hold && !h.stepped {
			return fmt.Errorf("unit %d is held without a request after HoldTime", i)
		}
	}
	if safe > h.Limit {
		return fmt.Errorf("%d requests run whose units Redis has not lost, of %d", safe, h.Limit)
	}
	return h.broken
}

// HeldUnits returns how many units Redis holds.
func (h *Holds) HeldUnits() (n int) {
	for i := range h.Units {
		if h.Units[i].Held > 0 {
			n++
		}
	}
	return n
}

// unused reports whether a new request may have the id of u.
func (h *Holds) unused(u *Unit) bool {
	free := u.State == Free && u.Held == 0 && u.Taking == 0 && u.Renewal == 0
	return free && (h.Mistake == NoGeneration || u.Replica == 0 && u.Release == 0)
}

// ArriveTaking is the arrival of a taking. It reports whether there is room.
func (h *Holds) ArriveTaking(u *Unit) (fits bool) {
	u.Taking = 0
	fits = h.HeldUnits() < h.Limit
	for i := range h.Units {
		other := &h.Units[i]
		other.Held = min(other.Held, h.Hold)
		if h.stepped {
			other.orphan = 0
		}
	}
	h.stepped = false
	if fits {
		u.Held, u.orphan = h.Hold, 0
	}
	return fits
}

// Answer is the reply to a taking.
func (h *Holds) Answer(u *Unit, fits bool) {
	switch {
	case u.State != Asked:
	case fits:
		u.State = Running
	default:
		u.State = Free
	}
}

// Leave is the end of a request whose taking has no answer.
func (h *Holds) Leave(u *Unit) {
	u.late = true
	h.sendRelease(u)
}

// ArriveRenewal is the arrival of a renewal. A unit that Redis does not know is put back.
func (h *Holds) ArriveRenewal(u *Unit) {
	u.Renewal, u.Held, u.orphan = 0, h.Hold, 0
	if h.Mistake != Adopts {
		return
	}
	for i := range h.Units {
		if other := &h.Units[i]; other.Held > 0 && other.Process == u.Process {
			other.Held = h.Hold
		}
	}
}

// End is the end of a request.
func (h *Holds) End(u *Unit) error {
	if u.reported {
		return errors.New("the end of a request is reported twice")
	}
	u.reported, u.lost = true, false
	h.sendRelease(u)
	return nil
}

func (h *Holds) sendRelease(u *Unit) { u.State, u.Release = Ended, h.Flight }

// ArriveRelease is the arrival of a release. It returns an error if it frees a unit in use.
func (h *Holds) ArriveRelease(u *Unit) error {
	u.Release, u.Held, u.orphan = 0, 0, 0
	if u.State == Running {
		return errors.New("a release has freed a unit that is in use")
	}
	return nil
}

// Confirm is the reply to a release.
func (h *Holds) Confirm(u *Unit) {
	switch {
	case u.State != Ended:
	case u.late:
		u.State, u.late, u.waits = Again, false, h.Flight
	default:
		u.State = Free
	}
}

// Crash is the death of a process.
func (h *Holds) Crash(process int) {
	for i := range h.Units {
		if u := &h.Units[i]; u.Process == process {
			u.State, u.late, u.waits, u.lost = Free, false, 0, false
		}
	}
}

func (u *Unit) forget() {
	if u.Held > 0 && u.State == Running {
		u.lost = true
	}
	u.Held, u.orphan = 0, 0
}

// Flush is the loss of all data.
func (h *Holds) Flush() {
	for i := range h.Units {
		h.Units[i].forget()
		h.Units[i].Replica = 0
	}
	h.stepped = false
}

// Replicate copies the data to the replica.
func (h *Holds) Replicate() {
	for i := range h.Units {
		h.Units[i].Replica = h.Units[i].Held
	}
}

// Failover puts the replica in the place of the server.
func (h *Holds) Failover() {
	for i := range h.Units {
		switch u := &h.Units[i]; {
		case u.Replica == 0:
			u.forget()
		case u.Held == 0 && h.Mistake == Keeps:
			u.Held = h.Hold + 1 + h.Step
		default:
			u.Held = u.Replica
		}
	}
}

// StepBack and StepForward move the server's clock.
func (h *Holds) StepBack() {
	h.stepped = true
	for i := range h.Units {
		if u := &h.Units[i]; u.Held > 0 {
			u.Held += h.Step
		}
	}
}

// StepForward moves the server's clock forward.
func (h *Holds) StepForward() {
	for i := range h.Units {
		if u := &h.Units[i]; u.Held > h.Step {
			u.Held -= h.Step
		} else {
			u.forget()
		}
	}
}

// Pass is time of any length between the events of a trace. A process may have sent a renewal of a
// unit that is running, and a release of one that has ended, at any time.
func (h *Holds) Pass(d int64) {
	for i := range h.Units {
		u := &h.Units[i]
		if u.Held <= d {
			u.forget()
		}
		for _, left := range [...]*int64{&u.Held, &u.Renewal, &u.Release, &u.Replica} {
			*left = max(0, *left-d)
		}
		switch u.State {
		case Running:
			u.Renewal, u.late = h.Flight, true
		case Ended, Again:
			u.Release = h.Flight
		}
		if u.Held > 0 && u.State != Running && u.Renewal == 0 {
			u.orphan += d
		} else {
			u.orphan = 0
		}
	}
}

// dying returns how many messages are lost if a tick passes.
func (h *Holds) dying() (n int) {
	for i := range h.Units {
		for _, left := range [...]int64{h.Units[i].Taking, h.Units[i].Renewal, h.Units[i].Release} {
			if left == 1 {
				n++
			}
		}
	}
	return n
}

// Tick is a third of HoldTime. Processes renew what they hold.
func (h *Holds) Tick() {
	h.Faults -= h.dying()
	for i := range h.Units {
		u := &h.Units[i]
		if u.Held == 1 {
			u.forget()
		}
		for _, left := range [...]*int64{&u.Held, &u.Taking, &u.Renewal, &u.Release, &u.Replica} {
			*left = max(0, *left-1)
		}
		switch {
		case u.State == Running && u.Renewal == 0:
			u.Renewal, u.late = h.Flight, true
		case u.State == Ended && u.Release == 0:
			u.Release = h.Flight
		case u.State == Again:
			if u.waits--; u.waits == 0 {
				h.sendRelease(u)
			}
		}
		if u.Held > 0 && u.State != Running && u.Taking == 0 && u.Renewal == 0 {
			u.orphan = min(u.orphan+1, h.Hold+1)
		} else {
			u.orphan = 0
		}
	}
}

// Next calls visit with each state that one transition leads to.
func (h *Holds) Next(visit func(transition string, next System)) {
	fault := h.Faults > 0
	to := func(name string, i int, change func(c *Holds, u *Unit)) {
		c := h.clone()
		change(c, &c.Units[i])
		visit(fmt.Sprintf("%s(%d)", name, i), c)
	}
	processes := 0
	for i := range h.Units {
		u := &h.Units[i]
		processes = max(processes, u.Process+1)
	}
	for i := range h.Units {
		u := &h.Units[i]
		if h.unused(u) && (i < processes || !h.unused(&h.Units[i-processes])) {
			to("ask", i, func(c *Holds, u *Unit) {
				u.State, u.Taking, u.reported = Asked, c.Flight, false
			})
		}
		if u.Taking > 0 {
			to("take", i, func(c *Holds, u *Unit) { c.Answer(u, c.ArriveTaking(u)) })
			if u.State == Asked && fault {
				to("take without reply", i, func(c *Holds, u *Unit) {
					c.Faults--
					c.ArriveTaking(u)
					c.Leave(u)
				})
			}
		}
		if u.State == Asked {
			to("leave", i, (*Holds).Leave)
		}
		if u.Renewal > 0 {
			to("renew", i, (*Holds).ArriveRenewal)
		}
		if u.State == Running {
			to("end", i, func(c *Holds, u *Unit) { c.broken = c.End(u) })
		}
		if u.Release > 0 {
			to("free", i, func(c *Holds, u *Unit) { c.broken = c.ArriveRelease(u); c.Confirm(u) })
			if u.State == Ended && fault {
				to("free without reply", i, func(c *Holds, u *Unit) {
					c.Faults--
					c.broken = c.ArriveRelease(u)
				})
			}
		}
	}
	if h.Faults >= h.dying() {
		to("tick", 0, func(c *Holds, _ *Unit) { c.Tick() })
	}
	if h.WithReplica {
		to("replicate", 0, func(c *Holds, _ *Unit) { c.Replicate() })
	}
	if !fault {
		return
	}
	failing := func(name string, change func(c *Holds)) {
		to(name, 0, func(c *Holds, _ *Unit) { c.Faults--; change(c) })
	}
	for p := range processes {
		if slices.ContainsFunc(h.Units, func(u Unit) bool { return u.Process == p && u.State != Free }) {
			failing("crash", func(c *Holds) { c.Crash(p) })
		}
	}
	if h.WithReplica {
		failing("failover", (*Holds).Failover)
	}
	if h.HeldUnits() == 0 {
		return
	}
	failing("flush", (*Holds).Flush)
	if h.WithClock {
		failing("step back", (*Holds).StepBack)
		failing("step forward", (*Holds).StepForward)
	}
}
