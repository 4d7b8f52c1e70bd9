package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-go/weir/internal/proof/interleave"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
)

// call is a call of a store: a Take, a Peek, a Settle or a Reset. Before it, the clock advances.
type call struct {
	charges []backends.Charge
	peek    bool
	after   time.Duration

	settles int // 0, or the call of the same task, counted from 1, that ends with final units
	final   int64
	reset   string
}

// told is what a call returned.
type told struct {
	decisions  [2]limits.Decision
	settlement limits.Settlement
	early      int64 // the clock when the call began
	late       int64 // and when it ended
}

const mostCalls = 8

// history is what the calls of all tasks were told.
type history struct {
	told   [mostCalls]told
	before [mostCalls]uint8 // the calls that ended before this one began: one bit for each
}

// scene is a few calls of several tasks.
type scene struct {
	name  string
	open  func(now func() time.Time) backends.Backend
	setup []call
	tasks [][]call
	model func(now func() time.Time) backends.Backend    // of a store that displaces; nil: Exact
	most  int64                                          // if model is set: the units that fit
	law   func(backends.Backend, []call, *history) error // what to check instead
	slow  bool                                           // a short run omits the last call
	full  bool                                           // a short run omits the scene
}

// explore runs the scene in every order. Each time it looks for an order of the calls in which the
// model tells them the same, and in which calls that did not overlap keep their order.
func (s scene) explore(o interleave.Options) (orders int, err error) {
	calls := s.calls()
	known := make(map[history]error)
	return interleave.Explore(o, func() ([]func(), func() error) {
		var h history
		var ends [mostCalls][2]int // when each call began and ended
		store := s.open(interleave.Now)
		for _, c := range s.setup {
			c.make(store, nil)
			interleave.Settle()
		}
		var tasks []func()
		for i := 0; i < len(calls); {
			first, n := i, len(s.tasks[len(tasks)])
			tasks = append(tasks, func() {
				for i := first; i < first+n; i++ {
					c := &calls[i]
					if c.after > 0 {
						interleave.Advance(c.after)
					}
					if s.law != nil {
						h.told[i] = c.make(store, h.told[first:i])
						continue
					}
					ends[i][0] = interleave.Step(unsafe.Pointer(&h), interleave.Reads, nil)
					early := interleave.Now().UnixMicro()
					h.told[i] = c.make(store, h.told[first:i])
					h.told[i].early, h.told[i].late = early, interleave.Now().UnixMicro()
					ends[i][1] = interleave.Step(unsafe.Pointer(&h), interleave.Adds, nil)
				}
			})
			i += n
		}
		return tasks, func() error {
			if s.law != nil {
				return s.law(store, calls, &h)
			}
			if m, ok := store.(*memory.Memory); ok && s.model != nil && m.Displaced() == 0 {
				return errors.New("no key is displaced")
			}
			for i := range calls {
				for j := range calls {
					if ends[j][1] < ends[i][0] {
						h.before[i] |= 1 << j
					}
				}
			}
			key := h
			for i := range key.told {
				for j := range key.told[i].decisions {
					key.told[i].decisions[j].Ticket = 0
				}
			}
			if _, ok := known[key]; !ok {
				known[key] = s.check(calls, &h)
			}
			return known[key]
		}
	})
}

// calls returns the calls of all tasks.
func (s scene) calls() (all []call) {
	for _, calls := range s.tasks {
		all = append(all, calls...)
	}
	return all
}

// make makes the call. earlier is what earlier calls of the task were told.
func (c *call) make(store backends.Backend, earlier []told) (t told) {
	ctx, err := context.Background(), error(nil)
	out := t.decisions[:len(c.charges)]
	switch {
	case c.settles > 0:
		ch := c.charges[0]
		d := earlier[c.settles-1].decisions[0]
		if !d.Allowed {
			return t
		}
		var settled [1]limits.Settlement
		err = backends.Settle(ctx, store, []backends.Ending{{Scope: ch.Scope, Key: ch.Key,
			Limit: ch.Limit, Taken: ch.Cost, Final: c.final, Ticket: d.Ticket, Lasts: ch.Lasts}}, settled[:])
		t.settlement = settled[0]
	case c.reset != "":
		err = backends.Reset(ctx, store, "scope", c.reset)
	case c.peek:
		err = backends.Peek(ctx, store, c.charges, out)
	default:
		err = store.Take(ctx, c.charges, out)
	}
	if err != nil {
		panic(err)
	}
	return t
}

// check returns an error if no order of the calls explains what they were told.
func (s scene) check(calls []call, h *history) error {
	if s.model == nil {
		s.model = func(now func() time.Time) backends.Backend { return limitstest.NewExact(now) }
	} else if err := s.checkSum(calls, h); err != nil {
		return err
	}
	for i := range calls {
		t := &h.told[i]
		if at := t.decisions[0].At; at != 0 && (at < t.early || at > t.late) {
			return fmt.Errorf("call %d decides at %d, not between %d and %d", i+1, at, t.early, t.late)
		}
	}
	if s.explains(calls, h, nil) {
		return nil
	}
	var b strings.Builder
	for i, c := range calls {
		fmt.Fprintf(&b, "\n  call %d, which began after the calls %03b: %s", i+1, h.before[i], c.show(h.told[i]))
	}
	return fmt.Errorf("no order explains what the calls were told:%s", &b)
}

// show shows the call and what it was told.
func (c *call) show(t told) string {
	var b strings.Builder
	switch {
	case c.reset != "":
		fmt.Fprintf(&b, "reset %s", c.reset)
	case c.settles > 0:
		fmt.Fprintf(&b, "call %d of the task ends with %d: %+v", c.settles, c.final, t.settlement)
	}
	for i, ch := range c.charges {
		if c.settles == 0 {
			fmt.Fprintf(&b, "%d of %s at %s: %+v; ", ch.Cost, ch.Key, ch.Limit, t.decisions[i])
		}
	}
	return b.String()
}

// checkSum returns an error if a key was allowed more units than fit. The scene must have no
// endings, and its clock must stand still.
func (s scene) checkSum(calls []call, h *history) error {
	units := make(map[string]int64)
	for i, c := range append(calls, s.setup...) {
		for j, ch := range c.charges {
			if i >= len(calls) || h.told[i].decisions[j].Allowed {
				units[ch.Key] += ch.Cost
			}
		}
	}
	for _, n := range units {
		if n > s.most {
			return fmt.Errorf("a key was allowed %d units, and %d fit", n, s.most)
		}
	}
	return nil
}

// step is a call of an order, at an instant.
type step struct {
	call int
	at   int64
}

// explains reports whether an order that begins so explains what all calls were told.
func (s scene) explains(calls []call, h *history, order []step) bool {
	if !s.agrees(calls, h, order) {
		return false
	}
	if len(order) == len(calls) {
		return true
	}
	made := uint8(0)
	for _, step := range order {
		made |= 1 << step.call
	}
	for i := range calls {
		if made>>i&1 != 0 || h.before[i]&^made != 0 {
			continue
		}
		instants := []int64{h.told[i].decisions[0].At}
		if instants[0] == 0 { // an ending does not tell; the clock has advanced once at most
			instants = []int64{h.told[i].early, h.told[i].late}
		}
		for _, at := range instants {
			if s.explains(calls, h, append(order[:len(order):len(order)], step{i, at})) {
				return true
			}
		}
	}
	return false
}

// agrees reports whether the model tells the last call of an order what it was told.
func (s scene) agrees(calls []call, h *history, order []step) bool {
	now := interleave.Start.UnixMicro()
	model := s.model(func() time.Time { return time.UnixMicro(now) })
	for _, c := range s.setup {
		c.make(model, nil)
	}
	var tells [mostCalls]told
	for n, step := range order {
		first := 0
		for _, task := range s.tasks {
			if first+len(task) > step.call {
				break
			}
			first += len(task)
		}
		now = step.at
		got := calls[step.call].make(model, tells[first:step.call])
		tells[step.call] = got
		if n == len(order)-1 && !same(got, h.told[step.call]) {
			return false
		}
	}
	return true
}

// same reports whether two calls were told the same. Tickets are private to a store.
func same(a, b told) bool {
	for i := range a.decisions {
		a.decisions[i].Ticket, b.decisions[i].Ticket = 0, 0
	}
	return a.decisions == b.decisions && a.settlement == b.settlement
}
