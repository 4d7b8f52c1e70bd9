package lab

import (
	"container/heap"

	"github.com/weir-go/weir/core"
)

// task is an action at a time.
type task struct {
	at    int64
	kind  taskKind
	order int64 // orders tasks of one kind and time

	panel   *panel
	outcome *core.Outcome // for an end
	move    move          // for the stream and for a retry
	attempt int64         // for a retry
	rule    *rule         // for a turn
	serial  int64         // for a probe: number of the denial
}

// taskKind orders the tasks of one time: tasks that return units come first, and a probe comes
// before requests that could take the units.
type taskKind uint8

const (
	taskEnd taskKind = iota
	taskTurn
	taskProbe
	taskRetry
	taskSend
)

// agenda holds the future tasks.
type agenda struct {
	tasks []task
	order int64
}

const maxTasks = 20_000

// add adds a task, unless there are too many.
func (a *agenda) add(t task) {
	if len(a.tasks) >= maxTasks {
		return
	}
	a.order++
	t.order = a.order
	heap.Push((*byTime)(&a.tasks), t)
}

// next removes and returns the first task until a time.
func (a *agenda) next(until int64) (task, bool) {
	if len(a.tasks) == 0 || a.tasks[0].at > until {
		return task{}, false
	}
	return heap.Pop((*byTime)(&a.tasks)).(task), true
}

type byTime []task

func (t byTime) Len() int { return len(t) }
func (t byTime) Less(i, j int) bool {
	a, b := &t[i], &t[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.kind != b.kind:
		return a.kind < b.kind
	}
	return a.order < b.order
}
func (t byTime) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *byTime) Push(x any)   { *t = append(*t, x.(task)) }
func (t *byTime) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = task{}
	*t = (*t)[:last]
	return x
}
