package interleave_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/interleave"
	"github.com/weir-go/weir/internal/proof/interleave/shim/atomic"
	"github.com/weir-go/weir/internal/proof/interleave/shim/sync"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// add is one try to add 1 to n, which loses what others add meanwhile.
func add(n *atomic.Int64) { n.Store(n.Load() + 1) }

func TestALostUpdateIsFound(t *testing.T) {
	_, err := interleave.Explore(interleave.Options{}, func() ([]func(), func() error) {
		var n atomic.Int64
		task := func() { add(&n) }
		return []func(){task, task}, func() error {
			if got := n.Load(); got != 2 {
				return fmt.Errorf("%d, want 2", got)
			}
			return nil
		}
	})
	if err == nil || !strings.HasPrefix(err.Error(), "1, want 2") ||
		!strings.Contains(err.Error(), "task 2 writes explore_test.go:") {
		t.Errorf("got %v, want the order in which an update is lost", err)
	}
}

func TestALockPreventsALostUpdate(t *testing.T) {
	orders, err := interleave.Explore(interleave.Options{}, func() ([]func(), func() error) {
		var n atomic.Int64
		var mu sync.Mutex
		task := func() {
			for range 3 {
				mu.Lock()
				add(&n)
				mu.Unlock()
			}
		}
		return []func(){task, task}, func() error {
			if got := n.Load(); got != 6 {
				return fmt.Errorf("%d, want 6", got)
			}
			return nil
		}
	})
	if err != nil || orders != 20 { // 6 over 3 orders of the critical sections
		t.Errorf("%d orders (%v), want 20", orders, err)
	}
}

func TestADeadlockIsFound(t *testing.T) {
	_, err := interleave.Explore(interleave.Options{}, func() ([]func(), func() error) {
		var a, b sync.Mutex
		var n atomic.Int64
		both := func(first, second *sync.Mutex) func() {
			return func() {
				first.Lock()
				second.Lock()
				n.Add(1)
				second.Unlock()
				first.Unlock()
			}
		}
		return []func(){both(&a, &b), both(&b, &a)}, func() error { return nil }
	})
	if err == nil || !strings.HasPrefix(err.Error(), "deadlock") {
		t.Errorf("got %v, want a deadlock", err)
	}
}

func TestAPanicOfATaskIsFound(t *testing.T) {
	_, err := interleave.Explore(interleave.Options{}, func() ([]func(), func() error) {
		return []func(){func() { panic(errors.ErrUnsupported) }}, func() error { return nil }
	})
	if err == nil || !strings.HasPrefix(err.Error(), "task 1 panics: unsupported") {
		t.Errorf("got %v, want the panic", err)
	}
}

// Random programs, of two or three tasks with a lock, two values, a goroutine and a timer, end in
// the same ways whether every order is run or those alone that make a difference.
func TestOrdersThatAreLeftOutMakeNoDifference(t *testing.T) {
	random := testrun.Random(t)
	all, few := 0, 0
	for range testrun.Sized(15, 500) {
		seed := random.Uint64()
		every, n := endsOf(t, seed, interleave.Options{Preemptions: 99})
		reduced, m := endsOf(t, seed, interleave.Options{})
		if !slices.Equal(every, reduced) {
			t.Fatalf("program %d: %d of %d ends are found", seed, len(reduced), len(every))
		}
		all, few = all+n, few+m
	}
	t.Logf("%d orders instead of %d", few, all)
	if few*3 > all {
		t.Errorf("%d orders instead of %d: too many", few, all)
	}
}

// endsOf returns all that the tasks of a random program may have seen when it ends.
func endsOf(t *testing.T, seed uint64, o interleave.Options) (ends []string, orders int) {
	t.Helper()
	found := make(map[string]bool)
	orders, err := interleave.Explore(o, func() ([]func(), func() error) {
		random := rand.New(rand.NewPCG(seed, 0))
		var mu sync.Mutex
		var values [2]atomic.Int64
		tasks := make([]func(), 2+random.IntN(2))
		seen := make([]string, len(tasks))
		for i := range tasks {
			var does []func()
			locked := random.IntN(2) == 0
			if locked {
				does = append(does, mu.Lock)
			}
			for range 7/len(tasks) - 1 {
				v := &values[random.IntN(2)]
				does = append(does, []func(){
					func() { v.Store(int64(i + 1)) },
					func() { seen[i] += fmt.Sprint(v.Load()) },
					func() { v.Add(10) },
					func() { seen[i] += fmt.Sprint(v.CompareAndSwap(1, 7)) },
				}[random.IntN(4)])
			}
			more := random.IntN(4)
			if len(tasks) == 2 && i == 0 && more == 0 {
				does = append(does[:2:2], func() { interleave.Go(func() { add(&values[0]) }) })
			}
			if len(tasks) == 2 && i == 1 && more == 0 {
				timer := interleave.AfterFunc(time.Second, func() { values[1].Store(5) })
				does = append(does[:2:2], func() { interleave.Advance(time.Second) }, timer.Stop)
			}
			tasks[i] = func() {
				for _, do := range does {
					do()
				}
				if locked {
					mu.Unlock()
				}
			}
		}
		return tasks, func() error {
			found[fmt.Sprint(seen, values[0].Load(), values[1].Load())] = true
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found)), orders
}
