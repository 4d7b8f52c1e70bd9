package faults

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/remote"
)

// budget is the default.
const budget = 50 * time.Millisecond

// longestWait is what no request may wait beyond what the machine is seen to be
// late. Without the budget the clients' own timeouts add up to 12 s.
const longestWait = budget + time.Second

// account is what a load comes to.
type account struct {
	sources  [limits.SourceNotAsked + 1]int // of decisions during the fault
	waits    [len(kinds)][]time.Duration    // during the fault
	admitted int                            // of the key of which most was
	bound    int                            // of that key
	late     time.Duration                  // that the machine was, at most
}

// tally adds up a load during which the server lost its data so many times, and
// fails the test if a request failed that must not, waited too long, or was
// admitted above the bound.
func (l *load) tally(t testing.TB, lost int) *account {
	t.Helper()
	l.end()
	a := &account{late: l.late}
	type count struct {
		primary  int
		fallback [len(kinds)]int  // admitted
		fell     [len(kinds)]bool // back, whether or not anything was admitted
	}
	counts := make(map[[2]int]*count)
	for _, e := range l.events {
		kind, scope := kinds[e.instance], scopes[e.policy]
		if e.phase == during {
			a.sources[e.source]++
			a.waits[e.instance] = append(a.waits[e.instance], e.wait)
		}
		if e.wait > longestWait+3*l.late {
			t.Errorf("%s, %s: waited %v, while the machine was late by %v at most", kind, scope, e.wait, l.late)
		}
		if !e.legal() {
			t.Fatalf("%s, %s: %v by %v", kind, scope, e.verdict, e.source)
		}
		c := counts[[2]int{e.key, e.policy}]
		if c == nil {
			c = &count{}
			counts[[2]int{e.key, e.policy}] = c
		}
		allowed := 0
		if e.verdict == core.Allowed {
			allowed = 1
		}
		switch e.source {
		case limits.SourcePrimary:
			c.primary += allowed
		case limits.SourceFallback:
			c.fallback[e.instance] += allowed
			c.fell[e.instance] = true
		}
	}
	for at, c := range counts {
		if most := units * (1 + lost); c.primary > most {
			t.Errorf("%s, key %d: Redis admitted %d, want %d at most", scopes[at[1]], at[0], c.primary, most)
		}
		admitted, bound := c.primary, units*(1+lost)
		for i, n := range c.fallback {
			if n > units {
				t.Errorf("%s, key %d: the fallback of %s admitted %d, want %d at most", scopes[at[1]], at[0], kinds[i], n, units)
			}
			admitted += n
			if c.fell[i] {
				bound += units
			}
		}
		if admitted > bound {
			t.Errorf("%s, key %d: %d admitted, want %d at most", scopes[at[1]], at[0], admitted, bound)
		}
		if admitted > a.admitted || admitted == a.admitted && bound < a.bound {
			a.admitted, a.bound = admitted, bound
		}
	}
	return a
}

// legal reports whether the policy allows what happened.
func (e *event) legal() bool {
	switch e.source {
	case limits.SourcePrimary:
		return e.verdict == core.Allowed || e.verdict == core.Denied
	case limits.SourceDenialCache:
		return e.verdict == core.Denied
	case limits.SourceFallback:
		return policies[e.policy] == core.FallBack && (e.verdict == core.Allowed || e.verdict == core.Denied)
	case limits.SourceOpen:
		return policies[e.policy] == core.FailOpen && e.verdict == core.Allowed
	case limits.SourceClosed:
		return policies[e.policy] == core.FailClosed && e.verdict == core.Unavailable
	}
	return false
}

// String is in the form that docs/RELIABILITY.md quotes.
func (a *account) String() string {
	var text strings.Builder
	total := 0
	for _, n := range a.sources {
		total += n
	}
	fmt.Fprintf(&text, "%d decisions:", total)
	for source, n := range a.sources {
		if n > 0 {
			fmt.Fprintf(&text, " %v %d,", limits.Source(source), n)
		}
	}
	text.WriteString(" none failed that must not; waits (median, 99%, longest):")
	for i, waits := range a.waits {
		if len(waits) > 0 {
			fmt.Fprintf(&text, " %s %s ms;", kinds[i], spread(waits))
		}
	}
	fmt.Fprintf(&text, " the machine late by up to %s ms;", ms(a.late))
	fmt.Fprintf(&text, " most admitted of one key: %d of at most %d", a.admitted, a.bound)
	return text.String()
}

// spread is the median, the 99th percentile and the longest. It sorts waits.
func spread(waits []time.Duration) string {
	slices.Sort(waits)
	n := len(waits)
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, %s, %s", ms(waits[n/2]), ms(waits[n*99/100]), ms(waits[n-1]))
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.3g", float64(d.Microseconds())/1000)
}

// brief is an error without what differs from one time to the next.
func brief(err error) string {
	var network *net.OpError
	for _, own := range []error{remote.ErrOpen, remote.ErrBudget, remote.ErrBusy} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	if errors.As(err, &network) {
		return network.Op + ": " + network.Err.Error()
	}
	return err.Error()
}
