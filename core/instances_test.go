package core_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/remote"
)

// counting is a backend that is down, and knows how many processes share it.
type counting struct {
	asking.Broken
	instances atomic.Int64
}

func (c *counting) Instances() int { return int(c.instances.Load()) }

func (*counting) Supports(limits.Limit) bool { return true }

func newCounting(n int64) *counting {
	c := &counting{Broken: asking.Broken{Err: errBroken}}
	c.instances.Store(n)
	return c
}

func TestTheLargerNumberOfInstancesDivides(t *testing.T) {
	for _, tt := range []struct {
		given          int
		counted, share int64
		state          int
	}{
		{given: 0, counted: 0, share: 60, state: 0},
		{given: 0, counted: 1, share: 60, state: 1},
		{given: 0, counted: 4, share: 15, state: 4},
		{given: 4, counted: 0, share: 15, state: 4},
		{given: 4, counted: 3, share: 15, state: 4},
		{given: 4, counted: 6, share: 10, state: 6},
		{given: 0, counted: -1, share: 60, state: 0},
		{given: 2, counted: 1_000_000, share: 1, state: 1_000_000},
	} {
		b := newCounting(tt.counted)
		for name, l := range map[string]*core.Limiter[request]{
			"itself": core.MustNew(core.Config[request]{Backend: b, Instances: tt.given, Rules: sixty}),
			"wrapped": core.MustNew(core.Config[request]{
				Backend: remote.MustNewStack(b, remote.StackOptions{}), Instances: tt.given, Rules: sixty,
			}),
		} {
			o := decide(t, l, request{user: name}, core.Allowed)
			if got := o.At(0).Limit(); got != perMinute(tt.share) {
				t.Errorf("%d given, %d counted by the backend %s: the share is %v, want %d", tt.given, tt.counted,
					name, got, tt.share)
			}
			if got := l.State().Instances; got != tt.state {
				t.Errorf("%d given, %d counted: the state has %d, want %d", tt.given, tt.counted, got, tt.state)
			}
		}
	}
}

var sixty = []core.Rule[request]{{Name: "user", Limit: perMinute(60), Key: byUser}}

// However often the number changes during an outage, a process admits no more than its largest
// share.
func TestAChangedShareKeepsWhatWasUsed(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.FixedWindow(limits.PerDay(60)), limits.SlidingWindow(limits.PerDay(60)),
		limits.SlidingLog(limits.PerDay(60)), limits.AnchoredWindow(limits.PerDay(60)),
		limits.TokenBucket(limits.PerDay(60), 60), limits.LeakyBucket(limits.PerDay(60), 60),
		limits.LeakyQueue(limits.PerDay(60), 60), limits.Calendar(60, limits.Day),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newCounting(6)
			l := core.MustNew(core.Config[request]{
				Backend: b, Rules: []core.Rule[request]{{Name: "user", Limit: limit, Key: byUser}},
			})
			admitted, largest := 0, 0
			for _, n := range []int64{6, 2, 6, 3, 2, 10, 2, 1, 10, 1, 2} {
				b.instances.Store(n)
				for l.Decide(t.Context(), request{user: "ann"}).Allowed() {
					admitted++
				}
				if largest = max(largest, 60/int(n)); admitted != largest {
					t.Fatalf("%v: %d are admitted of %d, after %d instances", limit, admitted, largest, n)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// uncountable is a backend whose count panics.
type uncountable struct{ asking.Broken }

func (*uncountable) Instances() int { panic("boom") }

func TestACountThatPanicsFailsTheFallback(t *testing.T) {
	l := core.MustNew(core.Config[request]{
		Backend: &uncountable{asking.Broken{Err: errBroken}}, Instances: 3, Rules: sixty,
	})
	o := decide(t, l, request{user: "ann"}, core.Unavailable)
	if o.Err() == nil || !strings.Contains(o.Err().Error(), "boom") {
		t.Errorf("error %v, want the panic", o.Err())
	}
	if n := l.State().Instances; n != 3 {
		t.Errorf("the state has %d instances, want 3", n)
	}
}
