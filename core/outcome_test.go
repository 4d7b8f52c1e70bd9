package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

var errNoRoom = errors.New("no room to wait")

func TestAnOutcomeThatFailsIsUnavailableAndKeepsItsDecisions(t *testing.T) {
	clock := func() time.Time { return time.Unix(1_800_000_000, 0) }
	limiter := core.MustNew(core.Config[string]{
		Rules:   []core.Rule[string]{{Name: "queue", Limit: core.LeakyQueue(core.PerSecond(1), 9), Key: func(r string) (string, error) { return r, nil }}},
		Backend: core.NewMemory(core.MemoryOptions{Clock: clock}),
	})
	limiter.Decide(context.Background(), "client")
	o := limiter.Decide(context.Background(), "client")
	if o.Delay() != time.Second {
		t.Fatalf("delay %v, want 1s", o.Delay())
	}
	o.Fail(errNoRoom)
	if o.Verdict() != core.Unavailable || o.Allowed() || o.Delay() != 0 || o.RetryAfter() != 0 {
		t.Errorf("%v, delay %v, retry after %v", o.Verdict(), o.Delay(), o.RetryAfter())
	}
	if d := o.At(0); !d.Allowed || d.Delay != time.Second || d.Remaining != 7 {
		t.Errorf("the decision became %+v", d)
	}
	another := errors.New("another")
	o.Fail(another)
	if !errors.Is(o.Err(), errNoRoom) || !errors.Is(o.Err(), another) {
		t.Errorf("error %v, want both", o.Err())
	}
}

// A program of one's own, without room to let a request wait.
func ExampleOutcome_Fail() {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "queue", Limit: core.LeakyQueue(core.PerHour(1), 9), Key: func(r string) (string, error) { return r, nil },
	}}})
	for range 2 {
		o := limiter.Decide(context.Background(), "client")
		if o.Delay() > 0 {
			o.Fail(errors.New("no room to wait"))
		}
		fmt.Println(o.Verdict(), o.Err())
	}
	// Output:
	// allowed <nil>
	// unavailable no room to wait
}
