package faults

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

const (
	// perKey is how many requests each key gets: more than all instances could
	// admit if all fell back.
	perKey = 2 * units * (1 + len(kinds))

	workers = 4 // for each instance

	pace = time.Millisecond // of each of them; leaves room for the others on this machine
)

// clients describes who makes a load.
type clients struct {
	callers int           // of each instance
	pace    time.Duration // that each pauses
	perKey  int           // requests
}

var usual = clients{callers: workers, pace: pace, perKey: perKey}

// When a request was made.
const (
	before int32 = iota
	during
	after
)

// event is what became of a request.
type event struct {
	key, instance, policy int
	phase                 int32
	verdict               core.Verdict
	source                limits.Source
	wait                  time.Duration
	err                   error // during the fault
}

// load is clients of all instances that go on until they are told to end: one
// new key after the other, under each policy.
type load struct {
	fleet   []*instance
	clients clients
	phase   atomic.Int32
	next    atomic.Int64 // request
	ended   chan struct{}
	end     func() // closes ended and waits for the clients; may be called again
	group   sync.WaitGroup
	prefix  string

	without [len(kinds)]atomic.Int64 // requests during the fault that the backend did not decide

	mu     sync.Mutex
	events []event
	errs   map[string]int // during the fault
	late   time.Duration  // by which the machine ended a pause too late, at most
}

func startLoad(t testing.TB, fleet []*instance, by clients) *load {
	l := &load{fleet: fleet, clients: by, prefix: fmt.Sprintf("load %d ", prefixes.Add(1)), errs: make(map[string]int),
		ended: make(chan struct{})}
	l.end = sync.OnceFunc(func() {
		close(l.ended)
		l.group.Wait()
	})
	for _, in := range fleet {
		for range by.callers {
			l.group.Go(func() { l.work(t, in) })
		}
	}
	t.Cleanup(l.end)
	return l
}

var prefixes atomic.Int64

func (l *load) work(t testing.TB, in *instance) {
	var events []event
	var late time.Duration
	errs := make(map[string]int)
	pause := time.NewTimer(0)
	defer pause.Stop()
	start := time.Time{}
	for {
		select {
		case <-l.ended:
			l.keep(events, errs, late)
			return
		case <-pause.C:
		}
		if l.phase.Load() == during && !start.IsZero() {
			late = max(late, time.Since(start)-l.clients.pace)
		}
		key := int(l.next.Add(1)-1) / l.clients.perKey
		name := l.name(key)
		for policy := range policies {
			e := event{key: key, instance: in.id, policy: policy, phase: l.phase.Load()}
			asked := time.Now()
			o := in.limiter[policy].Decide(t.Context(), name)
			e.wait = time.Since(asked)
			e.verdict = o.Verdict()
			if o.Len() == 1 {
				e.source = o.At(0).Source
			}
			if e.phase == during {
				if e.source > limits.SourceDenialCache {
					l.without[in.id].Add(1)
				}
				if e.err = o.Err(); e.err != nil {
					errs[brief(e.err)]++
				}
			}
			events = append(events, e)
		}
		start = time.Now()
		pause.Reset(l.clients.pace)
	}
}

// keep adds what one client has seen.
func (l *load) keep(events []event, errs map[string]int, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.late = append(l.events, events...), max(l.late, late)
	for err, n := range errs {
		l.errs[err] += n
	}
}

// name is what the limiters are asked for.
func (l *load) name(key int) string { return fmt.Sprint(l.prefix, key) }

// await waits until the clients have made n more requests.
func (l *load) await(t testing.TB, n int) {
	t.Helper()
	goal := l.next.Load() + int64(n)
	eventually(t, fmt.Sprintf("%d more requests", n), func() bool { return l.next.Load() >= goal })
}

// haveDoneWithout reports whether every instance has had n requests during the
// fault that the backend did not decide.
func (l *load) haveDoneWithout(n int64) bool {
	for _, in := range l.fleet {
		if l.without[in.id].Load() < n {
			return false
		}
	}
	return true
}
