package shed_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shed"
)

// line is a queue to watch: who got in, was shed or left, in order.
type line struct {
	*story
	mu  sync.Mutex
	log []string
}

// wait sends a request that may wait, and returns when it does or is decided.
func (l *line) wait(ctx context.Context, name string, class int) {
	go func() {
		p, e := l.Acquire(ctx, class)
		l.mu.Lock()
		defer l.mu.Unlock()
		if (p != nil) != (e.Verdict == shed.Admitted) {
			l.t.Errorf("%s: permit %v, %+v", name, p, e)
		}
		l.log = append(l.log, fmt.Sprintf("%s %s %v", name, e.Verdict, e.Wait))
	}()
	synctest.Wait()
}

// did asserts what has happened since the last call.
func (l *line) did(want ...string) {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := strings.Join(l.log, ", "); got != strings.Join(want, ", ") {
		l.t.Fatalf("%s, want %s", got, strings.Join(want, ", "))
	}
	l.log = nil
}

func (l *line) waiting(want int) {
	l.t.Helper()
	if got := l.State().Waiting; got != want {
		l.t.Fatalf("%d wait, want %d", got, want)
	}
}

// queued runs a test with a shedder of limit 2 whose places are taken by requests of class 0.
func queued(t *testing.T, options shed.Options[int], test func(t *testing.T, l *line, running []*shed.Permit)) {
	synctest.Test(t, func(t *testing.T) {
		if options.Limit == 0 {
			options.Limit = 2
		}
		if options.MaxWait == 0 {
			options.MaxWait = time.Second
		}
		l := &line{story: byIndex(t, options)}
		test(t, l, l.admitted(2, 0))
	})
}

func TestTheNewestWaiterGoesFirst(t *testing.T) {
	queued(t, shed.Options[int]{MaxWaiting: 10}, func(t *testing.T, l *line, running []*shed.Permit) {
		for _, name := range []string{"a", "b", "c"} {
			l.wait(t.Context(), name, 0)
			time.Sleep(time.Second / 10)
		}
		l.waiting(3)
		end(running[0])
		l.did("c admitted 100ms")
		end(running[1])
		l.did("b admitted 200ms")
		l.inFlight(2)
		time.Sleep(time.Second)
		l.did("a shed 1s")
		l.waiting(0)
	})
}

func TestTheMostImportantWaiterGoesFirst(t *testing.T) {
	two := []shed.Class{{Name: "critical"}, {Name: "other", Share: 100}}
	queued(t, shed.Options[int]{MaxWaiting: 10, Classes: two}, func(t *testing.T, l *line, running []*shed.Permit) {
		l.wait(t.Context(), "critical", 0)
		l.wait(t.Context(), "other", 1)
		end(running[0])
		l.did("critical admitted 0s")
		end(running[1])
		l.did("other admitted 0s")
	})
}

func TestAWaiterKeepsToTheShareOfItsClass(t *testing.T) {
	two := []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}}
	queued(t, shed.Options[int]{MaxWaiting: 10, Classes: two}, func(t *testing.T, l *line, running []*shed.Permit) {
		time.Sleep(time.Second)
		l.wait(t.Context(), "other", 1)
		end(running[0])
		l.did() // one is in flight, which fills half of the limit
		end(running[1])
		l.did("other admitted 0s")
	})
}

func TestAFullQueueShedsTheOldestOfTheLeastImportant(t *testing.T) {
	queued(t, shed.Options[int]{Classes: four[:2]}, func(t *testing.T, l *line, running []*shed.Permit) {
		l.wait(t.Context(), "a", 1)
		l.wait(t.Context(), "b", 1) // as many as the limit
		l.did()
		l.wait(t.Context(), "c", 1)
		l.did("a shed 0s")
		l.wait(t.Context(), "critical", 0)
		l.did("b shed 0s")
		l.wait(t.Context(), "more critical", 0)
		l.did("c shed 0s")
		l.wait(t.Context(), "d", 1)
		l.did("d shed 0s") // nobody who waits is as unimportant
		l.wait(t.Context(), "most critical", 0)
		l.did("critical shed 0s")
		l.waiting(2)
		if classes := l.State().Classes; classes[0].Shed != 1 || classes[1].Shed != 4 || classes[0].Waiting != 2 {
			t.Errorf("%+v", classes)
		}
	})
}

func TestAClientThatLeavesTheQueueIsGoneAtOnce(t *testing.T) {
	queued(t, shed.Options[int]{}, func(t *testing.T, l *line, running []*shed.Permit) {
		ctx, leave := context.WithCancel(t.Context())
		l.wait(t.Context(), "stays", 0)
		l.wait(ctx, "leaves", 0)
		leave()
		l.did("leaves left 0s")
		l.waiting(1)
		end(running[0])
		l.did("stays admitted 0s")
		if class := l.State().Classes[0]; class.Left != 1 || class.Shed != 0 || class.Admitted != 3 {
			t.Errorf("%+v", class)
		}
	})
}

func TestAHigherLimitLetsWaitersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{2, 3, 3}}
		l := &line{story: byIndexUsing(t, a, shed.Options[int]{MaxWaiting: 10, MaxWait: time.Minute})}
		l.admitted(2, 0)
		l.wait(t.Context(), "a", 0)
		time.Sleep(2 * time.Second)
		l.wait(t.Context(), "b", 0) // ends the window, after which the limit is 3
		l.did("a admitted 2s")
		l.inFlight(3)
		l.waiting(1)
	})
}
