package interleave

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"unsafe"
)

// Kind says which operations on one object commute: two that read, and two that add. All others
// depend on their order.
type Kind uint8

// The kinds of operations. If the object is the history of the calls, the beginning of a call
// reads, and its end adds.
const (
	Reads Kind = iota
	Adds
	Writes
	Locks   // writes, and waits until the lock is free
	Unlocks // writes
)

func (k Kind) String() string {
	return [...]string{"reads", "adds", "writes", "locks", "unlocks"}[k]
}

// operation is what a task does next. It waits while *held is true.
type operation struct {
	on   unsafe.Pointer
	kind Kind
	held *bool
}

func (o operation) dependsOn(p operation) bool {
	return o.on == p.on && (o.kind != p.kind || o.kind > Adds)
}

const maxTasks = 8

// set is a set of tasks: one bit for each.
type set uint8

func (s set) has(task int) bool { return s>>task&1 != 0 }

// first returns the least task of s, and prefers one if s has it. It returns −1 if s is empty.
func (s set) first(prefers int) int {
	if prefers >= 0 && s.has(prefers) {
		return prefers
	}
	for i := range maxTasks {
		if s.has(i) {
			return i
		}
	}
	return -1
}

// clock counts, for each task, those of its operations that happened before.
type clock [maxTasks]int

type task struct {
	run  func()
	wake chan struct{}
	next operation
	done bool
	seen clock
}

// event is an operation that a task has carried out.
type event struct {
	operation
	task int
	seen clock // including the event itself
	at   string
}

// choice is a point of a run at which one of several tasks goes on.
type choice struct {
	enabled set
	todo    set // tasks to try here
	done    set // tasks that have been tried
	asleep  set // tasks whose operation was tried before and commutes with all that came since
	chosen  int
}

// Options are the options of [Explore].
type Options struct {
	// Preemptions bounds how often a task that could go on is suspended. Explore then runs all such
	// orders, even those that make no difference. 0: no bound.
	Preemptions int
}

// explorer is an exploration. Its functions that run while tasks do are marked norace: tasks run in
// turn, and the race detector must not see that.
type explorer struct {
	Options
	choices []choice // of the present run
	tracing bool
	round
}

// round is a run of all tasks in one order.
type round struct {
	tasks       []*task
	all         sync.WaitGroup
	events      []event
	current     int // the task that runs; −1: none does yet, or all have returned
	preemptions int
	redundant   bool     // an equivalent order has been run
	later       []func() // see Go
	timers      []*Timer
	over        chan struct{}
	stuck       bool  // each task waits for a lock
	err         error // a task panicked
	stack       []byte
}

// running is the exploration whose tasks run.
var running *explorer

// Explore runs tasks in every order that can make a difference. For each order it calls start,
// which returns the tasks, and after them check. What the tasks do must depend on the order alone.
// Explore returns the number of orders. It stops at the first order in which a task panics, all
// tasks wait for locks, or check fails, and returns an error that shows it.
func Explore(o Options, start func() (tasks []func(), check func() error)) (orders int, err error) {
	x := &explorer{Options: o}
	for {
		err := x.run(start)
		if err != nil {
			x.tracing = true
			if again := x.run(start); again == nil || again.Error() != err.Error() {
				return orders, fmt.Errorf("%w\nbut the same order once more: %v", err, again)
			}
			return orders, fmt.Errorf("%w\n%s%s", err, x.trace(), x.stack)
		}
		if !x.redundant {
			orders++
		}
		if !x.backtrack() {
			return orders, nil
		}
	}
}

// backtrack drops the choices without another task to try, from the last one on, and chooses
// another task. It returns false if no order is left.
func (x *explorer) backtrack() bool {
	for n := len(x.choices); n > 0; n-- {
		c := &x.choices[n-1]
		c.done |= 1 << c.chosen
		if next := (c.todo &^ c.done &^ c.asleep).first(-1); next >= 0 {
			c.chosen = next
			x.choices = x.choices[:n]
			return true
		}
	}
	return false
}

// run runs the tasks in the order of x.choices and, behind their end, in any order.
func (x *explorer) run(start func() ([]func(), func() error)) error {
	x.round = round{current: -1, over: make(chan struct{}, 1)}
	running, now = x, Start
	defer func() { running = nil }()
	tasks, check := start()
	for _, f := range tasks {
		x.add(f)
	}
	x.pass(-1)
	hidden(func() { <-x.over })
	x.current = -1
	if x.stuck { // the tasks wait for ever
		return errDeadlock
	}
	x.all.Wait()
	if x.err != nil {
		return x.err
	}
	return check()
}

// add adds a task. What the task that adds it has done so far has happened before.
//
//go:norace
func (x *explorer) add(f func()) {
	i, t := len(x.tasks), &task{run: f, wake: make(chan struct{}, 1)}
	if i == maxTasks {
		panic("interleave: too many tasks")
	}
	if x.current >= 0 {
		t.seen = x.tasks[x.current].seen
	}
	x.tasks = append(x.tasks, t)
	x.all.Go(func() { x.begin(t, i) })
}

var errDeadlock = errors.New("deadlock: each task waits for a lock that another one holds")

// begin runs a task.
//
//go:norace
func (x *explorer) begin(t *task, i int) {
	hidden(func() { <-t.wake })
	x.note(i)
	defer func() { x.end(t, i, recover()) }()
	t.run()
}

//go:norace
func (x *explorer) end(t *task, i int, panicked any) {
	if panicked != nil && x.err == nil {
		x.err = fmt.Errorf("task %d panics: %v", i+1, panicked)
		x.stack = debug.Stack()
	}
	t.done = true
	x.pass(i)
}

// Step is called before an operation of the task that runs. It returns when that is the next one in
// the order, and *held is false: held may be nil. It returns the number of operations before it. A
// caller that is no task goes on at once.
//
//go:norace
func Step(on unsafe.Pointer, kind Kind, held *bool) (before int) {
	x := running
	if x == nil || x.current < 0 {
		return 0
	}
	me := x.current
	x.tasks[me].next = operation{on, kind, held}
	x.pass(me)
	x.note(me)
	return len(x.events) - 1
}

// pass lets the chosen task go on. If that is not from, pass wakes it and waits until from is
// chosen, unless from is done.
//
//go:norace
func (x *explorer) pass(from int) {
	next := x.choose()
	if next == from {
		return
	}
	wake := x.over
	if next >= 0 {
		x.current, wake = next, x.tasks[next].wake
	}
	hidden(func() { wake <- struct{}{} })
	if from >= 0 && !x.tasks[from].done {
		mine := x.tasks[from].wake
		hidden(func() { <-mine })
	}
}

// choose returns the task that goes on, or −1 if none can.
//
//go:norace
func (x *explorer) choose() int {
	enabled, left := set(0), false
	for i, t := range x.tasks {
		left = left || !t.done
		if !t.done && (t.next.held == nil || !*t.next.held) {
			enabled |= 1 << i
		}
	}
	if enabled == 0 {
		x.stuck = left
		return -1
	}
	n := len(x.events)
	if n == len(x.choices) {
		x.choices = append(x.choices, x.newChoice(enabled))
	}
	c := &x.choices[n]
	if c.enabled != enabled {
		panic("interleave: the tasks do not do the same in each run")
	}
	if c.chosen != x.current && x.current >= 0 && enabled.has(x.current) {
		x.preemptions++
	}
	return c.chosen
}

//go:norace
func (x *explorer) newChoice(enabled set) choice {
	c := choice{enabled: enabled}
	n := len(x.events)
	switch {
	case x.Preemptions > 0:
		c.chosen = enabled.first(x.current)
		if c.todo = enabled; x.preemptions >= x.Preemptions && c.chosen == x.current {
			c.todo = 1 << c.chosen
		}
		return c
	case n > 0:
		before, last := &x.choices[n-1], &x.events[n-1]
		for i, t := range x.tasks {
			if (before.asleep | before.done).has(i) && i != last.task &&
				!t.next.dependsOn(last.operation) {
				c.asleep |= 1 << i
			}
		}
	}
	c.chosen = (enabled &^ c.asleep).first(x.current)
	if c.chosen < 0 { // all that follows has been run
		x.redundant = true
		c.chosen = enabled.first(x.current)
	}
	c.todo = 1 << c.chosen
	return c
}

// note records the operation that a task carries out now. It looks for the last operation of
// another task that this one depends on and could have come before, and marks that order to be
// tried. This is dynamic partial-order reduction (Flanagan and Godefroid, POPL 2005), with sleep
// sets.
//
//go:norace
func (x *explorer) note(i int) {
	t := x.tasks[i]
	seen := t.seen
	reversed := x.redundant || x.Preemptions > 0
	for n := len(x.events) - 1; n >= 0; n-- {
		e := &x.events[n]
		if e.task == i || !t.next.dependsOn(e.operation) {
			continue
		}
		if !reversed && e.kind != Unlocks && e.seen[e.task] > t.seen[e.task] {
			if c := &x.choices[n]; c.enabled.has(i) {
				c.todo |= 1 << i
			} else {
				c.todo |= c.enabled
			}
			reversed = true
		}
		for j := range seen {
			seen[j] = max(seen[j], e.seen[j])
		}
	}
	seen[i]++
	t.seen = seen
	e := event{operation: t.next, task: i, seen: seen}
	if x.tracing {
		e.at = caller()
	}
	x.events = append(x.events, e)
	t.next.held = nil
}

// caller returns the file and line that called a shim.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if f.File != "" && !strings.Contains(f.Function, "/interleave.") &&
			!strings.Contains(f.Function, "/interleave/shim/") {
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return "begins"
		}
	}
}

func (x *explorer) trace() string {
	var b strings.Builder
	for _, e := range x.events {
		fmt.Fprintf(&b, "  %stask %d %s %s\n", strings.Repeat("\t\t\t\t", e.task), e.task+1, e.kind, e.at)
	}
	return b.String()
}
