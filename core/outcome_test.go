package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

var errNoRoom = errors.New("no room to wait")

func TestAnOutcomeThatFailsIsUnavailableAndKeepsItsDecisions(t *testing.T) {
	clock := func() time.Time { return time.Unix(1_800_000_000, 0) }
	limiter := core.MustNew(core.Config[string]{
		Rules:   []core.Rule[string]{{Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1), 9), Key: func(r string) (string, error) { return r, nil }}},
		Backend: memory.New(memory.Options{Clock: clock}),
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
		Name: "queue", Limit: limits.LeakyQueue(limits.PerHour(1), 9), Key: func(r string) (string, error) { return r, nil },
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

func TestTheStatusIsThatOfTheVerdict(t *testing.T) {
	rule := core.Rule[string]{Name: "r", Limit: limits.TokenBucket(limits.PerDay(1), 1), OnFailure: core.FailClosed, Key: func(r string) (string, error) {
		if r == "" {
			return "", errNoRoom
		}
		return r, nil
	}}
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule}})
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, step := range []struct {
		ctx     context.Context
		request string
		want    int
	}{{t.Context(), "client", 200}, {t.Context(), "client", 429}, {t.Context(), "", 503}, {left, "client", 0}} {
		o := limiter.Decide(step.ctx, step.request)
		if got := o.Status(); got != step.want {
			t.Errorf("%v: status %d, want %d", o.Verdict(), got, step.want)
		}
	}
	var zero core.Outcome
	if zero.Status() != 429 {
		t.Errorf("the zero outcome has status %d, want that of a denial", zero.Status())
	}
	zero.Fail(errNoRoom)
	if zero.Status() != 503 {
		t.Errorf("an outcome that failed has status %d", zero.Status())
	}
}

// Over HTTP a denial is not the service's fault, and a failure not the client's.
func ExampleOutcome_Status() {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "daily", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: func(r string) (string, error) { return r, nil },
	}}})
	for range 2 {
		o := limiter.Decide(context.Background(), "client")
		fmt.Println(o.Status(), o.Verdict())
	}
	// Output:
	// 200 allowed
	// 429 denied
}
