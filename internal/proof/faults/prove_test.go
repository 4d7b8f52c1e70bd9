package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// fault is one row of the matrix.
type fault struct {
	name   string
	strike func(l *load)
	struck func(l *load) bool // nil: every instance has done 100 times without Redis, and asks it no more
	heal   func(l *load)
	lost   int     // times that the server loses its data
	by     clients // zero: usual

	// shared fails the test if limits are not shared. nil: shareExactly.
	shared func(t *testing.T, fleet []*instance)
}

// prove has the instances of fleet limit the same clients before, during and
// after a fault, and fails the test if anything is not as docs/RELIABILITY.md
// says. It returns the load of that time, for more.
func prove(t *testing.T, fleet []*instance, f fault) *load {
	t.Helper()
	if f.shared == nil {
		f.shared = func(t *testing.T, fleet []*instance) { shareExactly(t, fleet) }
	}
	f.shared(t, fleet)
	exhaust(t, fleet, "exhausted")

	if f.by == (clients{}) {
		f.by = usual
	}
	l := startLoad(t, fleet, f.by)
	l.await(t, 2*perKey)
	l.phase.Store(during)
	f.strike(l)
	if f.struck == nil {
		f.struck = func(l *load) bool { return l.haveDoneWithout(100) && all(fleet, "open") }
	}
	eventually(t, "the fault is felt: "+f.name, func() bool { return f.struck(l) })
	remembers(t, fleet, "exhausted")
	f.heal(l)
	healed := time.Now()
	l.phase.Store(after)
	var recovery [len(kinds)]time.Duration
	eventually(t, "every breaker is closed: "+f.name, func() bool {
		for i, in := range fleet {
			if recovery[i] == 0 && state(in.breaker) == "closed" {
				recovery[i] = time.Since(healed)
			}
		}
		return all(fleet, "closed")
	})
	l.await(t, 2*perKey)

	a := l.tally(t, f.lost)
	f.shared(t, fleet)
	opened := 0
	for _, in := range fleet {
		opened += in.reports(t)
	}
	t.Logf("FAULT %s: %v, data lost %d times; breakers opened %d times, closed again after (ms): %s",
		f.name, a, f.lost, opened, each(fleet, recovery))
	for err, n := range l.errs {
		t.Logf("%6d × %s", n, err)
	}
	return l
}

// all reports whether every breaker is in one state.
func all(fleet []*instance, want string) bool {
	for _, in := range fleet {
		if state(in.breaker) != want {
			return false
		}
	}
	return true
}

// each names the durations of all instances.
func each(fleet []*instance, durations [len(kinds)]time.Duration) string {
	var parts []string
	for i, in := range fleet {
		parts = append(parts, in.kind+" "+ms(durations[i]))
	}
	return strings.Join(parts, ", ")
}

// exhaust has every instance see key denied by Redis, under each policy.
func exhaust(t *testing.T, fleet []*instance, key string) {
	t.Helper()
	for _, in := range fleet {
		for policy := range policies {
			eventually(t, "Redis denies a key that is exhausted", func() bool {
				o := in.limiter[policy].Decide(t.Context(), key)
				return o.Verdict() == core.Denied && o.At(0).Source <= limits.SourceDenialCache
			})
		}
	}
}

// remembers fails the test unless the denials of an exhausted key are still in force.
func remembers(t *testing.T, fleet []*instance, key string) {
	t.Helper()
	for _, in := range fleet {
		for policy := range policies {
			o := in.limiter[policy].Decide(t.Context(), key)
			if d := o.At(0); o.Verdict() != core.Denied || d.Source != limits.SourceDenialCache || d.RetryAfter <= 0 {
				t.Errorf("%s, %s: %v by %v, want the denial from before the fault", in.kind, scopes[policy], o.Verdict(), d.Source)
			}
		}
	}
}

// shareExactly has all instances admit clients of one key at once, under each
// policy, and fails the test unless it is the limit that they admit. Where the
// machine is so slow that Redis misses the budget, it tries again with a new
// key; Redis itself must never admit more. It returns the key.
func shareExactly(t *testing.T, fleet []*instance) (key string) {
	t.Helper()
	eventually(t, "all of a key's requests are decided in time", func() bool {
		key = fmt.Sprint("shared ", prefixes.Add(1))
		var mu sync.Mutex
		var admitted [len(policies)]int
		intime := true
		var group sync.WaitGroup
		for _, in := range fleet {
			for range workers {
				group.Go(func() {
					for range 2 * units / workers {
						for policy := range policies {
							o := in.limiter[policy].Decide(t.Context(), key)
							mu.Lock()
							if o.At(0).Source > limits.SourceDenialCache {
								intime = false
							} else if o.Allowed() {
								admitted[policy]++
							}
							mu.Unlock()
						}
					}
				})
			}
		}
		group.Wait()
		for policy, n := range admitted {
			if n > units || n < units && intime {
				t.Errorf("%s: %d admitted of a limit of %d", scopes[policy], n, units)
			}
		}
		return intime
	})
	return key
}
