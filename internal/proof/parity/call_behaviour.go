package parity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

type callBehaviour[R any] struct {
	name string
	test func(*testing.T, Caller[R])
}

func runCallBehaviour[R any](t *testing.T, a Caller[R]) {
	behaviours := []callBehaviour[R]{
		{"concurrent calls get what the limit allows", testCallConcurrency[R]},
		{"however a call ends, its limiter hears of it", testCallEnds[R]},
		{"a stream holds its unit until it ends", testCallHolds[R]},
		{"what messages cost is spent", testCallSpends[R]},
		{"a detached call ends later", testCallDetach[R]},
		{"the outcome is in the context", testCallOutcome[R]},
		{"a deadline ends the wait in the queue", testCallDeadline[R]},
		{"why a rule cannot decide is logged", testCallUndecided[R]},
		{"rules change between calls", testCallChanges[R]},
	}
	if !a.LateLeaving {
		behaviours = append(behaviours, []callBehaviour[R]{
			{"a client that leaves the queue is not served and its slot stays spent", testCallLeaves[R]},
			{"a queue that is full has no room", testCallFullQueue[R]},
		}...)
	}
	if !a.NoShed {
		behaviours = append(behaviours, []callBehaviour[R]{
			{"a call above the limit of a shedder asks no limiter", testCallShed[R]},
			{"a stream is in flight until its first message", testCallShedStreams[R]},
			{"however a call ends, it is in flight no more", testCallShedEnds[R]},
		}...)
	}
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) { b.test(t, a) })
	}
}

const firstService = "parity.v1.First"

// hello calls Unary.
func hello(ctx context.Context, client CallClient) CallAnswer {
	return client.Call(ctx, firstService, nil, "")
}

func wantAnswer(t *testing.T, got CallAnswer, code uint32) {
	t.Helper()
	if got.Code != code {
		t.Errorf("the answer is %+v, want code %d", got, code)
	}
}

func testCallConcurrency[R any](t *testing.T, a Caller[R]) {
	client := a.Open(t, CallApp[R]{Site: everybody[R](limits.SlidingWindow(limits.PerDay(50)))})
	var of [2]atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 20 {
				var got CallAnswer
				if i%2 == 0 {
					got = hello(t.Context(), client)
				} else {
					stream := client.Stream(t.Context(), "Down", nil)
					stream.CloseSend()
					got = drain(stream)
				}
				switch got.Code {
				case CodeOK:
					of[0].Add(1)
				case CodeResourceExhausted:
					of[1].Add(1)
				default:
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
	if of[0].Load() != 50 || of[1].Load() != 110 {
		t.Errorf("%d allowed, %d denied of 160, want 50", of[0].Load(), of[1].Load())
	}
}

// waysToEnd returns the ways in which a handler may end.
func waysToEnd[R any](a Caller[R]) []struct {
	name    string
	handler func(context.Context) error
	code    uint32
	want    core.Result
} {
	status := a.Status
	if status == nil {
		status = gate.StatusOfCode
	}
	return []struct {
		name    string
		handler func(context.Context) error
		code    uint32
		want    core.Result
	}{
		{"an answer", func(context.Context) error { return nil }, CodeOK, core.Result{Status: 200}},
		{"an error with a code", func(context.Context) error { return a.Error(CodeUnauthenticated) },
			CodeUnauthenticated, core.Result{Status: status(CodeUnauthenticated)}},
		{"an error without one", func(context.Context) error { return errors.New("broken") }, 2,
			core.Result{Status: 500}},
		{"a panic", func(context.Context) error { panic("boom") }, CodeInternal,
			core.Result{Panicked: true}},
	}
}

func testCallEnds[R any](t *testing.T, a Caller[R]) {
	for _, way := range waysToEnd(a) {
		limit, ends := ending[R]()
		run := func(ctx context.Context, _ ServerMessages) error { return way.handler(ctx) }
		client := a.Open(t, CallApp[R]{Site: limit,
			Unary: func(ctx context.Context, _ string) error {
				return way.handler(ctx)
			}, Down: run, Up: run})
		wantAnswer(t, hello(t.Context(), client), way.code)
		ends.wantEnd(t, way.want)
		stream := client.Stream(t.Context(), "Down", nil)
		stream.CloseSend()
		wantAnswer(t, drain(stream), way.code)
		ends.wantEnd(t, way.want)
	}
	limit, ends := ending[R]()
	begun := make(chan bool)
	wait := func(ctx context.Context) error {
		begun <- true
		<-ctx.Done()
		return ctx.Err()
	}
	client := a.Open(t, CallApp[R]{
		Site: limit, Unary: func(ctx context.Context, _ string) error { return wait(ctx) },
		Down: func(ctx context.Context, _ ServerMessages) error { return wait(ctx) },
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	wantAnswer(t, hello(ctx, client), CodeCanceled)
	ends.wantEnd(t, core.Result{Left: true})
	ctx, leave = context.WithCancel(t.Context())
	defer leave()
	stream := client.Stream(ctx, "Down", nil)
	stream.CloseSend()
	<-begun
	leave()
	wantAnswer(t, drain(stream), CodeCanceled)
	ends.wantEnd(t, core.Result{Left: true})
}

func testCallHolds[R any](t *testing.T, a Caller[R]) {
	limit := everybody[R](limits.Concurrent(1))
	var l Limiter[R]
	limit.Made = func(made Limiter[R]) { l = made }
	may := make(chan bool)
	client := a.Open(t, CallApp[R]{Site: limit,
		Down: func(_ context.Context, stream ServerMessages) error {
			stream.Send("one")
			<-may
			return stream.Send("two")
		}})
	stream := client.Stream(t.Context(), "Down", nil)
	stream.CloseSend()
	if text, err := stream.Receive(); text != "one" || err != nil {
		t.Fatal(text, err)
	}
	if units := l.State().Held; units != 1 {
		t.Errorf("%d units held", units)
	}
	wantAnswer(t, hello(t.Context(), client), CodeResourceExhausted)
	second := client.Stream(t.Context(), "Down", nil)
	second.CloseSend()
	wantAnswer(t, drain(second), CodeResourceExhausted)
	may <- true
	wantAnswer(t, drain(stream), CodeOK)
	waitFor(t, "nothing is held", func() bool { units := l.State().Held; return units == 0 })
	wantAnswer(t, hello(t.Context(), client), CodeOK)
}

func testCallSpends[R any](t *testing.T, a Caller[R]) {
	settled := make(chan limits.Settlement, 1)
	limit := everybody[R](limits.FixedWindow(limits.PerDay(100)))
	limit.Rules[0].FinalCost = core.SpentCost
	limit.Observer = core.ObserverFuncs[R]{OnEnd: func(s limits.Settlement) { settled <- s },
		Next: limit.Observer}
	client := a.Open(t, CallApp[R]{Site: limit,
		Up: func(ctx context.Context, stream ServerMessages) error {
			for {
				if _, err := stream.Receive(); err == io.EOF {
					return stream.Send("done")
				} else if err != nil {
					return err
				}
				if !a.Spend(ctx, "everybody", 2) {
					t.Error("nothing was spent")
				}
			}
		}})
	stream := client.Stream(t.Context(), "Up", nil)
	for range 5 {
		if err := stream.Send("x"); err != nil {
			t.Fatal(err)
		}
	}
	stream.CloseSend()
	wantAnswer(t, drain(stream), CodeOK)
	if s := next(t, settled); s.Final != 10 || s.Taken != 1 {
		t.Errorf("settled %+v, want a final cost of 10", s)
	}
}

func testCallDetach[R any](t *testing.T, a Caller[R]) {
	ends := make(chan func(core.Result), 1)
	client := a.Open(t, CallApp[R]{Site: everybody[R](limits.Concurrent(1)),
		Unary: func(ctx context.Context, _ string) error {
			end, ok := a.Detach(ctx)
			if !ok {
				t.Error("there is nothing to end")
			}
			ends <- end
			return nil
		}})
	wantAnswer(t, hello(t.Context(), client), CodeOK)
	wantAnswer(t, hello(t.Context(), client), CodeResourceExhausted)
	next(t, ends)(core.Result{Status: 200})
	wantAnswer(t, hello(t.Context(), client), CodeOK)
	next(t, ends)(core.Result{Status: 200})
}

func testCallOutcome[R any](t *testing.T, a Caller[R]) {
	for _, in := range []bool{true, false} {
		limit := everybody[R](limits.FixedWindow(limits.PerDay(9)))
		limit.OutcomeInContext = in
		left := make(chan int64, 1)
		note := func(ctx context.Context) error {
			if o, ok := a.OutcomeFrom(ctx); ok {
				left <- o.At(0).Remaining
			} else {
				left <- -1
			}
			return nil
		}
		client := a.Open(t, CallApp[R]{
			Site: limit, Unary: func(ctx context.Context, _ string) error { return note(ctx) },
			Down: func(ctx context.Context, _ ServerMessages) error { return note(ctx) },
		})
		hello(t.Context(), client)
		first := next(t, left)
		stream := client.Stream(t.Context(), "Down", nil)
		stream.CloseSend()
		drain(stream)
		if second := next(t, left); in && (first != 8 || second != 7) ||
			!in && (first != -1 || second != -1) {
			t.Errorf("%d and %d left", first, second)
		}
	}
}

// queued opens an application with a queue in which the second call waits for a day.
func queued[R any](t *testing.T, a Caller[R],
	maxWaiting int) (client CallClient, l Limiter[R], waits chan bool, served *atomic.Int32) {
	limit := everybody[R](limits.LeakyQueue(limits.PerDay(1), 3))
	limit.Backend, limit.MaxWaiting, limit.Made = nil, maxWaiting, func(made Limiter[R]) { l = made }
	waits, served = make(chan bool, 9), new(atomic.Int32)
	limit.Observer = core.ObserverFuncs[R]{
		OnDecision: func(_ context.Context, _ R, o core.Outcome) { waits <- o.Delay() > 0 },
		Next:       limit.Observer,
	}
	client = a.Open(t, CallApp[R]{Site: limit,
		Unary: func(context.Context, string) error { served.Add(1); return nil }})
	wantAnswer(t, hello(t.Context(), client), CodeOK)
	<-waits
	return client, l, waits, served
}

func testCallLeaves[R any](t *testing.T, a Caller[R]) {
	client, l, _, served := queued(t, a, 0)
	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan CallAnswer, 1)
	go func() { answer <- hello(ctx, client) }()
	// ObserveDecision is too early: a tap of gRPC decides before the call can wait.
	waitFor(t, "the call waits", func() bool { return l.State().Waiting == 1 })
	leave()
	wantAnswer(t, <-answer, CodeCanceled)
	waitFor(t, "the call has left",
		func() bool { s := l.State(); return s.Waiting == 0 && s.QueueLeft == 1 })
	if d, err := l.ExplainKey(t.Context(), "everybody", "everybody", limits.Limit{}); err != nil ||
		d.Remaining != 1 || served.Load() != 1 {
		t.Errorf("%d left, %v, %d served", d.Remaining, err, served.Load())
	}
}

func testCallDeadline[R any](t *testing.T, a Caller[R]) {
	client, l, _, served := queued(t, a, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantAnswer(t, hello(ctx, client), CodeDeadlineExceeded)
	waitFor(t, "no call waits", func() bool { return l.State().Waiting == 0 && served.Load() == 1 })
}

func testCallFullQueue[R any](t *testing.T, a Caller[R]) {
	client, l, waits, served := queued(t, a, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	first := make(chan CallAnswer, 1)
	go func() { first <- hello(ctx, client) }()
	<-waits
	waitFor(t, "a call waits", func() bool { return l.State().Waiting == 1 })
	got := hello(t.Context(), client)
	if wantAnswer(t, got, CodeUnavailable); got.Retry != time.Second ||
		got.Fields.Get("Retry-After") != "1" || got.Fields.Get("RateLimit") != "" {
		t.Errorf("%+v", got)
	}
	leave()
	if wantAnswer(t, next(t, first), CodeCanceled); served.Load() != 1 {
		t.Errorf("%d served", served.Load())
	}
	waitFor(t, "no call waits", func() bool { return l.State().Waiting == 0 })
}

func testCallChanges[R any](t *testing.T, a Caller[R]) {
	limit := everybody[R](limits.TokenBucket(limits.PerDay(1), 1))
	var l Limiter[R]
	limit.Backend, limit.Made = nil, func(made Limiter[R]) { l = made }
	client := a.Open(t, CallApp[R]{Site: limit})
	wantAnswer(t, hello(t.Context(), client), CodeOK)
	wantAnswer(t, hello(t.Context(), client), CodeResourceExhausted)
	if err := l.Replace(everybody[R](limits.TokenBucket(limits.PerDay(2), 2)).Rules); err != nil {
		t.Fatal(err)
	}
	got := hello(t.Context(), client)
	if wantAnswer(t, got, CodeOK); !slices.Equal(got.Fields.Values("RateLimit-Policy"),
		[]string{`"everybody";q=2;w=86400`}) {
		t.Errorf("%v", got.Fields)
	}
	if err := l.ResetKey(t.Context(), "everybody", "everybody"); err != nil {
		t.Fatal(err)
	}
	if err := l.Override("everybody",
		core.Override{Limit: limits.TokenBucket(limits.PerDay(1), 1),
			Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, hello(t.Context(), client), CodeOK)
	wantAnswer(t, hello(t.Context(), client), CodeResourceExhausted)
	hidden := everybody[R](limits.TokenBucket(limits.PerDay(1), 1)).Rules
	hidden[0].Hidden = true
	if err := l.Replace(hidden); err != nil {
		t.Fatal(err)
	}
	got = hello(t.Context(), client)
	wantAnswer(t, got, CodeResourceExhausted)
	if told := fmt.Sprintf("%+v", got); len(got.Violated) > 0 || strings.Contains(told, "everybody") {
		t.Errorf("a hidden rule: %s", told)
	}
}

// sheddingCalls opens an application with a shedder in front of a limiter.
func sheddingCalls[R any](t *testing.T, a Caller[R], options shed.Options[R],
	app CallApp[R]) (CallClient, *shed.Shedder[R]) {
	t.Helper()
	s, err := shed.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return sheddingCallsBy(t, a, s, app), s
}

func sheddingCallsBy[R any](t *testing.T, a Caller[R], s *shed.Shedder[R], app CallApp[R]) CallClient {
	t.Helper()
	app.Shed, app.Site = s, everybody[R](limits.FixedWindow(limits.PerDay(10_000)))
	return a.Open(t, app)
}

func testCallShed[R any](t *testing.T, a Caller[R]) {
	begun, may := make(chan bool), make(chan bool)
	client, s := sheddingCalls(t, a, shed.Options[R]{Limit: 1}, CallApp[R]{Unary: func(context.Context, string) error {
		begun <- true
		<-may
		return nil
	}})
	first := make(chan CallAnswer, 1)
	go func() { first <- hello(t.Context(), client) }()
	<-begun
	second := hello(t.Context(), client)
	wantAnswer(t, second, CodeUnavailable)
	if retry := second.Fields.Get("Retry-After"); !slices.Contains([]string{"1", "2", "3", "4"},
		retry) || second.Retry.Seconds() != float64(retry[0]-'0') ||
		!strings.HasPrefix(second.Text, "The service is at capacity: retry in "+retry) {
		t.Errorf("%+v", second)
	}
	if second.Fields.Get("RateLimit") != "" || second.Fields.Get("RateLimit-Policy") != "" {
		t.Errorf("%v", second.Fields)
	}
	stream := client.Stream(t.Context(), "Down", nil)
	stream.CloseSend()
	wantAnswer(t, drain(stream), CodeUnavailable)
	may <- true
	wantAnswer(t, next(t, first), CodeOK)
	go func() { <-begun; may <- true }()
	if third := hello(t.Context(), client); third.Code != CodeOK ||
		third.Fields.Get("RateLimit") != `"everybody";r=9998;t=86400` &&
			!strings.HasPrefix(third.Fields.Get("RateLimit"), `"everybody";r=9998;`) {
		t.Errorf("a call that was shed has been counted by the limiter: %+v", third)
	}
	waitFor(t, "nothing is in flight", func() bool { return s.State().InFlight == 0 })
	if class := s.State().Classes[0]; class.Shed != 2 || class.Admitted != 2 {
		t.Errorf("%+v", class)
	}
}

func testCallShedStreams[R any](t *testing.T, a Caller[R]) {
	may, asked := make(chan bool), make(chan bool)
	client, s := sheddingCalls(t, a, shed.Options[R]{Limit: 1}, CallApp[R]{Down: func(_ context.Context, stream ServerMessages) error {
		asked <- true
		<-may
		stream.Send("one")
		<-may
		return stream.Send("two")
	}})
	stream := client.Stream(t.Context(), "Down", nil)
	stream.CloseSend()
	<-asked
	if state := s.State(); state.InFlight != 1 || state.Streams != 0 {
		t.Errorf("before its first message %+v", state)
	}
	may <- true
	if _, err := stream.Receive(); err != nil {
		t.Fatal(err)
	}
	if state := s.State(); state.InFlight != 0 || state.Streams != 1 {
		t.Errorf("while it streams %+v", state)
	}
	wantAnswer(t, hello(t.Context(), client), CodeOK)
	may <- true
	wantAnswer(t, drain(stream), CodeOK)
	waitFor(t, "no stream is left", func() bool { return s.State().Streams == 0 })
}

func testCallShedEnds[R any](t *testing.T, a Caller[R]) {
	ends := ends{byRoute: make(map[string][2]int)}
	handlers := make(chan func(context.Context) error, 1)
	s := watching[R](t, &ends)
	client := sheddingCallsBy(t, a, s, CallApp[R]{Unary: func(ctx context.Context, _ string) error { return (<-handlers)(ctx) }})
	ways := waysToEnd(a)
	for _, way := range ways {
		handlers <- way.handler
		wantAnswer(t, hello(t.Context(), client), way.code)
		waitFor(t, "nothing is in flight after "+way.name, func() bool { return s.State().InFlight == 0 })
	}
	waitFor(t, "a later call shows them to the algorithm", func() bool {
		handlers <- func(context.Context) error { return nil }
		client.Call(t.Context(), "parity.v1.Second", nil, "")
		ends.mu.Lock()
		defer ends.mu.Unlock()
		return ends.byRoute["/"+firstService+"/Unary"] == [2]int{1, 3}
	})
}
