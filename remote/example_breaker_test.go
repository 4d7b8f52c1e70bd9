package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/remote"
)

// far is a backend across a network. It is down unless up is true, and honours deadlines.
type far struct{ up bool }

func (f *far) HonoursDeadline() bool { return true }

func (f *far) Take(_ context.Context, _ []backends.Charge, out []limits.Decision) error {
	if !f.up {
		return errors.New("far: connection refused")
	}
	for i := range out {
		out[i] = limits.Decision{Allowed: true}
	}
	return nil
}

// stdout returns a logger to standard output that omits texts that vary.
func stdout() *slog.Logger { return logTo(os.Stdout) }

func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "after" || a.Key == "error" {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// A limiter whose backend is across a network. One of its rules fails closed,
// because answering nobody is better there than a guess.
func Example() {
	redis := &far{up: true} // in a real program, a redisbackend.Backend
	limiter := nethttp.MustNew(nethttp.Config{
		Backend:   remote.MustNewStack(redis, remote.StackOptions{}),
		Instances: 3, // while Redis fails, each admits a third
		Rules: []nethttp.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(100), 20), Key: keyfuncs.Address(keyfuncs.Peer)},
			{
				Name: "sms", Limit: limits.SlidingLog(limits.PerHour(10)), Key: keyfuncs.Address(keyfuncs.Peer),
				OnFailure: core.FailClosed,
			},
		},
	})
	var _ http.Handler = limiter.Handler(http.NotFoundHandler())
}

func ExampleNewBreaker() {
	backend := &far{}
	b := remote.MustNewBreaker(backend, remote.BreakerOptions{
		Budget:  time.Millisecond,
		OpenFor: time.Millisecond,
		Logger:  slog.New(slog.DiscardHandler), // nil: slog.Default()
	})
	limiter := core.MustNew(core.Config[job]{
		Backend: b,
		Rules:   []core.Rule[job]{{Name: "per-customer", Limit: limits.FixedWindow(limits.PerDay(100)), Key: byCustomer}},
	})
	decideWhile := func(state string) {
		for b.Status().State == state {
			limiter.Decide(context.Background(), job{"ann"})
		}
		o := limiter.Decide(context.Background(), job{"ann"})
		fmt.Println(b.Status().State, "on", o.At(0).Source)
	}
	decideWhile("closed")
	backend.up = true
	decideWhile("open")
	// Output:
	// open on fallback
	// closed on primary
}

// job is a request of an application that does not use HTTP.
type job struct{ customer string }

func byCustomer(j job) (string, error) { return j.customer, nil }

// The backend of another store gets what Redis has: bounded waits and remembered denials.
func ExampleNewStack() {
	stack, err := remote.NewStack(&far{}, remote.StackOptions{Logger: stdout()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(stack.Take(context.Background(), nil, nil))
	// Output: far: connection refused
}

// The error reports every mistake.
func ExampleStackOptions_Validate() {
	fmt.Println(remote.StackOptions{Budget: 2 * time.Hour, Lease: time.Minute}.Validate())
	// Output:
	// remote: budget: must be positive, at most 1h0m0s, or 0 for 50ms (got 2h0m0s)
	// remote: lease: must be 10ms to 1s, or 0 for none (got 1m0s)
}

// A health check asks the stack. It should not be one whose failure restarts the server.
func ExampleStack() {
	stack := remote.MustNewStack(&far{}, remote.StackOptions{})
	fmt.Println("ready:", stack.Status().State == "closed")
	// Output: ready: true
}

func ExampleStack_Leases() {
	stack := remote.MustNewStack(memory.MustNew(memory.Options{}), remote.StackOptions{Lease: time.Second})
	fmt.Println(stack.Leases().Held, "units held")
	// Output: 0 units held
}

func ExampleBreaker_Status() {
	b := remote.MustNewBreaker(&far{}, remote.BreakerOptions{Logger: stdout()})
	s := b.Status()
	fmt.Println(s.State, time.Since(s.Since) < time.Hour, s.Opened)
	// Output: closed true 0
}

// The lines of the log say when Redis is gone, and when it is back.
func ExampleBreakerOptions() {
	logged, w := io.Pipe() // log lines are written in the background
	options := remote.BreakerOptions{
		Budget: time.Millisecond,
		Logger: logTo(w),
	}
	b := remote.MustNewBreaker(&far{}, options)
	for b.Status().State == "closed" {
		b.Take(context.Background(), nil, nil)
	}
	line, _ := bufio.NewReader(logged).ReadString('\n')
	fmt.Print(line)
	// Output: level=WARN msg="weir: backend degraded" effect="each process now decides by itself; rules that fail closed answer 503"
}

func ExampleBreaker_Take() {
	b := remote.MustNewBreaker(deadlineClient{memory.MustNew(memory.Options{})}, remote.BreakerOptions{})
	charges := []backends.Charge{{Scope: "exports", Key: "ann", Limit: limits.FixedWindow(limits.PerDay(10)), Cost: 3}}
	decisions := make([]limits.Decision, 1)
	if err := b.Take(context.Background(), charges, decisions); err != nil {
		fmt.Println("no decision:", err)
		return
	}
	fmt.Println(decisions[0].Allowed, decisions[0].Remaining)
	// Output: true 7
}

func ExampleBreaker_Peek() {
	b := remote.MustNewBreaker(&far{up: true}, remote.BreakerOptions{})
	err := backends.Peek(context.Background(), b, nil, nil)
	fmt.Println(errors.Is(err, errors.ErrUnsupported)) // the backend has no Peek
	// Output: true
}

func ExampleBreaker_Reset() {
	b := remote.MustNewBreaker(memory.MustNew(memory.Options{}), remote.BreakerOptions{})
	fmt.Println(backends.Reset(context.Background(), b, "exports", "ann"))
	// Output: <nil>
}

func ExampleBreaker_Count() {
	b := remote.MustNewBreaker(memory.MustNew(memory.Options{}), remote.BreakerOptions{})
	fmt.Println(backends.Count(context.Background(), b))
	// Output: 0 <nil>
}

// Distinguish ErrOpen from other errors only to count them. The limiter treats all
// of them as its rules say.
func ExampleErrOpen() {
	b := remote.MustNewBreaker(
		&far{}, remote.BreakerOptions{Budget: time.Microsecond, Logger: slog.New(slog.DiscardHandler)},
	)
	for {
		err := b.Take(context.Background(), nil, nil)
		if errors.Is(err, remote.ErrOpen) {
			fmt.Println("not even asked")
			return
		}
	}
	// Output: not even asked
}

// sloth never answers, whatever the deadline.
type sloth struct{}

func (sloth) Take(context.Context, []backends.Charge, []limits.Decision) error {
	select {}
}

func ExampleErrBudget() {
	b := remote.MustNewBreaker(sloth{}, remote.BreakerOptions{Budget: time.Millisecond})
	err := b.Take(context.Background(), nil, nil)
	fmt.Println(errors.Is(err, remote.ErrBudget))
	// Output: true
}

func ExampleErrBusy() {
	b := remote.MustNewBreaker(sloth{}, remote.BreakerOptions{Budget: time.Hour})
	errs := make(chan error)
	for range 1000 {
		go func() { errs <- b.Take(context.Background(), nil, nil) }()
	}
	err := <-errs // the others wait
	fmt.Println(errors.Is(err, remote.ErrBusy))
	// Output: true
}

// deadlineClient is a backend whose client sets socket deadlines from the context.
type deadlineClient struct{ backends.Backend }

func (deadlineClient) HonoursDeadline() bool { return true }

// A backend that says so is called without a goroutine.
func ExampleBreaker_deadlines() {
	b := remote.MustNewBreaker(deadlineClient{memory.MustNew(memory.Options{})}, remote.BreakerOptions{})
	fmt.Println(b.Take(context.Background(), nil, nil))
	// Output: <nil>
}

func ExampleBreaker_Unwrap() {
	store := memory.MustNew(memory.Options{})
	b := remote.MustNewBreaker(store, remote.BreakerOptions{})
	fmt.Println(b.Unwrap() == store)
	// Output: true
}

// serverDown is the error of one server of several. The other servers work.
type serverDown struct{ addr string }

func (e serverDown) Error() string       { return e.addr + ": connection refused" }
func (e serverDown) SparesBackend() bool { return true }

// sharded is a backend of several servers, one of which is down.
type sharded struct{}

func (sharded) HonoursDeadline() bool { return true }

func (sharded) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return serverDown{"10.0.0.7:6379"}
}

// The breaker stays closed for the keys of the other servers, however often one server
// fails.
func ExampleBreaker_errors() {
	b := remote.MustNewBreaker(sharded{}, remote.BreakerOptions{Budget: time.Microsecond})
	for range 100 {
		b.Take(context.Background(), nil, nil)
	}
	fmt.Println(b.Status().State)
	// Output: closed
}
