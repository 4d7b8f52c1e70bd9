package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// queued returns a limiter with a queue, and an outcome that has to wait for a second.
func queued(t *testing.T, most int) (*core.Limiter[string], core.Outcome) {
	t.Helper()
	clock := func() time.Time { return time.Unix(1_800_000_000, 0) }
	limiter := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{{Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1), 9),
			Key: func(r string) (string, error) { return r, nil }}},
		Backend:    memory.MustNew(memory.Options{Clock: clock}),
		MaxWaiting: most,
	})
	limiter.Decide(context.Background(), "client")
	o := limiter.Decide(context.Background(), "client")
	if o.Delay() != time.Second {
		t.Fatalf("delay %v, want 1s", o.Delay())
	}
	return limiter, o
}

func TestAnOutcomeWhoseWaitEndsIsUnavailableAndKeepsItsDecisions(t *testing.T) {
	limiter, o := queued(t, 0)
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := limiter.Wait(left, &o); !errors.Is(err, context.Canceled) || !errors.Is(o.Err(), err) {
		t.Errorf("Wait: %v, and the outcome has %v", err, o.Err())
	}
	if o.Verdict() != core.Unavailable || o.Allowed() || o.Delay() != 0 || o.RetryAfter() != 0 || o.Status() != 503 {
		t.Errorf("%v, delay %v, retry after %v, status %d", o.Verdict(), o.Delay(), o.RetryAfter(), o.Status())
	}
	if d := o.At(0); !d.Allowed || d.Delay != time.Second || d.Remaining != 7 {
		t.Errorf("the decision became %+v", d)
	}
	if err := limiter.Wait(left, &o); err != nil {
		t.Errorf("what is not allowed waits: %v", err)
	}
	if s := limiter.State(); s.Waiting != 0 || s.QueueLeft != 1 || s.QueueFull != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOnlyMaxWaitingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, o := queued(t, 1)
		first := make(chan error)
		go func(o core.Outcome) { first <- limiter.Wait(t.Context(), &o) }(o)
		synctest.Wait()
		if err := limiter.Wait(t.Context(), &o); err != core.ErrQueueFull || o.Verdict() != core.Unavailable {
			t.Errorf("the second: %v, %v", err, o.Verdict())
		}
		if s := limiter.State(); s.Waiting != 1 || s.QueueFull != 1 {
			t.Errorf("%+v", s)
		}
		begun := time.Now()
		if err := <-first; err != nil || time.Since(begun) != time.Second {
			t.Errorf("the first: %v after %v", err, time.Since(begun))
		}
	})
}

// A program of one's own that lets a request wait for its turn, for a while.
func ExampleLimiter_Wait() {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "queue", Limit: limits.LeakyQueue(limits.PerHour(1), 9), Key: func(r string) (string, error) { return r, nil },
	}}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	for range 2 {
		o := limiter.Decide(context.Background(), "client")
		err := limiter.Wait(ctx, &o)
		fmt.Println(o.Verdict(), err)
	}
	// Output:
	// allowed <nil>
	// unavailable context deadline exceeded
}

func TestTheStatusIsThatOfTheVerdict(t *testing.T) {
	rule := core.Rule[string]{Name: "r", Limit: limits.TokenBucket(limits.PerDay(1), 1), OnFailure: core.FailClosed,
		Key: func(r string) (string, error) {
			if r == "" {
				return "", errors.New("no key")
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
	}{{t.Context(), "client", 200}, {t.Context(), "client", 429}, {t.Context(), "", 503}, {left, "client", 503}} {
		o := limiter.Decide(step.ctx, step.request)
		if got := o.Status(); got != step.want {
			t.Errorf("%v: status %d, want %d", o.Verdict(), got, step.want)
		}
	}
	var zero core.Outcome
	if zero.Status() != 429 {
		t.Errorf("the zero outcome has status %d, want that of a denial", zero.Status())
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

// TestAnOutcomeHasNothingOfTheOneBeforeIt decides requests of all kinds into one outcome.
func TestAnOutcomeHasNothingOfTheOneBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var many []core.Rule[request]
		for i := range 5 {
			many = append(many, core.Rule[request]{Name: fmt.Sprint("rule", i),
				Limit: limits.LeakyQueue(limits.PerMinute(60), 2), Key: byUser})
		}
		kinds := map[string]struct {
			ctx   context.Context
			rules []core.Rule[request]
		}{
			"one rule":   {t.Context(), many[:1]},
			"two rules":  {t.Context(), many[:2]},
			"five rules": {t.Context(), many},
			"no rule": {t.Context(),
				[]core.Rule[request]{{Name: "never", Limit: perMinute(1),
					Key: core.When(func(request) bool { return false }, byUser)}}},
			"failed": {t.Context(), []core.Rule[request]{{Name: "fails", Limit: perMinute(1), Key: fails}}},
			"open": {t.Context(),
				[]core.Rule[request]{{Name: "fails", Limit: perMinute(1), Key: fails, OnFailure: core.FailOpen}, many[0]}},
			"end":   {t.Context(), []core.Rule[request]{{Name: "held", Limit: limits.Concurrent(2), Key: byUser}}},
			"ended": {ended, many},
		}
		type pair struct{ reused, fresh *core.Limiter[request] }
		limiters := make(map[string]pair)
		for name, kind := range kinds {
			config := core.Config[request]{Rules: kind.rules}
			limiters[name] = pair{core.MustNew(config), core.MustNew(config)}
		}
		var o core.Outcome
		for range 4 { // in random order, until what has a limit is denied
			for name, kind := range kinds {
				limiters[name].reused.DecideInto(kind.ctx, request{user: "ann"}, &o)
				fresh := limiters[name].fresh.Decide(kind.ctx, request{user: "ann"})
				if got, want := visible(&o), visible(&fresh); got != want {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
				}
			}
		}
	})
}

// visible returns all that o says, but for its tickets.
func visible(o *core.Outcome) string {
	s := fmt.Sprint(o.Verdict(), o.Err(), o.Revision(), o.Delay(), o.RetryAfter(), o.BindingRule(), o.Status())
	for i := range o.Len() {
		d := *o.At(i)
		d.Ticket = 0
		s += fmt.Sprintf("\n%s %v %q %d %+v", d.Rule(), d.Limit(), d.Key, d.Cost, d.Decision)
	}
	return s
}

// A program may ask for the first decision of a client that has left, on a goroutine whose panic
// ends the process.
func TestADecisionThatDoesNotExistIsOfNoRule(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	limiter := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "one", Limit: perMinute(1), Key: byUser}, {Name: "two", Limit: perMinute(1), Key: byUser}}})
	left := limiter.Decide(ended, request{user: "ann"})
	decided := limiter.Decide(t.Context(), request{user: "ann"})
	for name, d := range map[string]*core.RuleDecision{
		"of the zero outcome":   new(core.Outcome).At(0),
		"of a client that left": left.At(0),
		"behind the last":       decided.At(2),
		"before the first":      decided.At(-1),
	} {
		want := limits.Decision{Source: limits.SourceNotAsked}
		if d.Index() != -1 || d.Rule() != "" || d.Scope() != "" || d.Key != "" || d.Limit() != (limits.Limit{}) ||
			d.Unit() != core.Requests || d.Mode() != core.Enforce || d.Cost != 0 || d.Decision != want {
			t.Errorf("%s: %+v of rule %q, %d", name, d.Decision, d.Rule(), d.Index())
		}
		d.Allowed = true // it is the caller's own
	}
	if left.At(0).Allowed {
		t.Error("a caller has changed the decision of another")
	}
}
