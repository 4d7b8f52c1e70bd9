package core_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// afar is a memory as if it were outside this process: it settles after a while, and
// fails on demand.
type afar struct {
	*memory.Memory
	lag     time.Duration
	fails   atomic.Bool
	hung    chan struct{} // nil: it does not hang
	calls   atomic.Int64  // of Take
	settles atomic.Int64  // calls of Settle
}

var errAway = errors.New("away")

func newRemote(lag time.Duration) *afar {
	return &afar{Memory: memory.MustNew(memory.Options{}), lag: lag}
}

func (r *afar) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	r.calls.Add(1)
	if r.fails.Load() {
		return errAway
	}
	return r.Memory.Take(ctx, charges, out)
}

func (r *afar) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if r.fails.Load() {
		return errAway
	}
	return r.Memory.Peek(ctx, charges, out)
}

func (r *afar) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	r.settles.Add(1)
	if r.hung != nil {
		<-r.hung
	}
	time.Sleep(r.lag)
	if r.fails.Load() {
		return errAway
	}
	return r.Memory.Settle(ctx, endings, out)
}

func decideOn(l *core.Limiter[string], key string) core.Outcome {
	return l.Decide(context.Background(), key)
}

// settled collects what ObserveEnd is told.
type settled struct {
	mu  sync.Mutex
	all []limits.Settlement
}

func (s *settled) observe(one limits.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

func TestWhatARequestReallyCost(t *testing.T) {
	always := func(n int64) func(core.Result) int64 { return func(core.Result) int64 { return n } }
	failures := core.OnStatus(func(status int) bool { return status == 401 })
	for _, test := range []struct {
		name   string
		final  func(core.Result) int64
		spend  []int64
		result core.Result
		left   int64 // of 10, after an estimate of 4
	}{
		{"the estimate", core.SpentCost, nil, core.Result{}, 6},
		{"what was spent", core.SpentCost, []int64{1, 2}, core.Result{}, 7},
		{"nothing", core.SpentCost, []int64{0}, core.Result{}, 10},
		{"at least the estimate after a panic", core.SpentCost, []int64{1}, core.Result{Panicked: true}, 6},
		{"more than there is", core.SpentCost, []int64{math.MaxInt64, math.MaxInt64}, core.Result{}, 0},
		{"negative", always(-1), nil, core.Result{}, 6},
		{"a panic", func(core.Result) int64 { panic("no") }, nil, core.Result{}, 6},
		{"a failure", failures, nil, core.Result{Status: 401}, 6},
		{"a success", failures, nil, core.Result{Status: 200}, 10},
		{"a success of a client that left", failures, nil, core.Result{Status: 200, Left: true}, 6},
		{"no status", failures, nil, core.Result{}, 6},
		{"a panic with a status", failures, []int64{1}, core.Result{Status: 200, Panicked: true}, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen settled
			l := core.MustNew(core.Config[string]{Observer: core.ObserverFuncs[string]{OnEnd: seen.observe},
				Rules: []core.Rule[string]{{
					Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(10)), Key: self, FinalCost: test.final,
					Cost: func(key string) int64 { return int64(len(key)) },
				}}})
			o := decideOn(l, "four")
			for _, n := range test.spend {
				if !o.Spend("tokens", n) {
					t.Errorf("Spend(%d) does not count", n)
				}
			}
			if o.Spend("tokens", -1) || o.Spend("others", 1) {
				t.Error("a negative or unknown Spend counts")
			}
			o.End(test.result)
			if o.Spend("tokens", 1) {
				t.Error("Spend after End counts")
			}
			o.End(core.Result{})
			if len(seen.all) != 1 {
				t.Fatalf("ObserveEnd was called %d times", len(seen.all))
			}
			s := seen.all[0]
			if got := 6 + s.Returned - s.Charged; max(0, got) != test.left || s.Rule != "tokens" || s.Scope != "tokens" ||
				s.Taken != 4 || s.Err != nil {
				t.Errorf("%+v leaves %d of 10, want %d", s, got, test.left)
			}
		})
	}
}

func TestARequestEndsOnce(t *testing.T) {
	var seen settled
	l := core.MustNew(core.Config[string]{Observer: core.ObserverFuncs[string]{OnEnd: seen.observe},
		Rules: []core.Rule[string]{{Name: "busy", Limit: limits.Concurrent(3), Key: self}}})
	o := decideOn(l, "k")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { copied := o; copied.End(core.Result{}) })
	}
	all.Wait()
	if held := l.State().Held; held != 0 || len(seen.all) != 1 || seen.all[0].Returned != 1 {
		t.Errorf("ended by 20: %d held, settled %+v", held, seen.all)
	}
	detached := decideOn(l, "k")
	end, ok := detached.Detach()
	if _, again := detached.Detach(); !ok || again {
		t.Errorf("Detach: %v, and once more %v", ok, again)
	}
	detached.End(core.Result{})
	if held := l.State().Held; held != 1 {
		t.Errorf("End of a detached request leaves %d held, want 1", held)
	}
	end(core.Result{})
	end(core.Result{})
	if held := l.State().Held; held != 0 {
		t.Errorf("%d held after the end of a detached request", held)
	}
	if _, ok := detached.Detach(); ok {
		t.Error("an ended request is detached")
	}
}

func TestAPanicKeepsNothing(t *testing.T) {
	panics := core.MustNew(core.Config[string]{
		Observer: core.ObserverFuncs[string]{OnDecision: func(context.Context, string, core.Outcome) { panic("observe") }},
		Rules:    []core.Rule[string]{{Name: "busy", Limit: limits.Concurrent(1), Key: self}},
	})
	func() {
		defer func() { _ = recover() }()
		decideOn(panics, "k")
	}()
	if held := panics.State().Held; held != 0 {
		t.Errorf("after a panic in ObserveDecision: %d held", held)
	}
	l := core.MustNew(core.Config[string]{
		Observer: core.ObserverFuncs[string]{OnEnd: func(limits.Settlement) { panic("observe end") }},
		Rules:    []core.Rule[string]{{Name: "busy", Limit: limits.Concurrent(1), Key: self}},
	})
	for range 3 {
		o := decideOn(l, "k")
		if !o.Allowed() {
			t.Fatal("denied by what has ended")
		}
		o.End(core.Result{})
	}
}

// The clock of a Memory is a function of the program.
func TestAPanicOfTheClockStaysInEnd(t *testing.T) {
	isBroken := false
	backend := memory.MustNew(memory.Options{Clock: func() time.Time {
		if isBroken {
			panic("clock")
		}
		return time.UnixMicro(0)
	}})
	var seen settled
	l := core.MustNew(core.Config[string]{Backend: backend, Observer: core.ObserverFuncs[string]{OnEnd: seen.observe},
		Rules: []core.Rule[string]{
			{Name: "tokens", Limit: limits.TokenBucket(limits.PerDay(10), 10), Key: self, FinalCost: core.SpentCost},
		}})
	o := decideOn(l, "k")
	o.Spend("tokens", 5)
	isBroken = true
	o.End(core.Result{})
	if len(seen.all) != 1 || seen.all[0].Err == nil {
		t.Errorf("the ending is reported as %+v, want one with an error", seen.all)
	}
}

// A client that sends one request after the other is not denied by its own last one,
// though the backend learns of its end later.
func TestASequentialClientIsNeverDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[string]{Backend: newRemote(10 * time.Millisecond),
			Rules: []core.Rule[string]{{Name: "busy", Limit: limits.Concurrent(1), Key: self}}})
		for i := range 10_000 {
			o := decideOn(l, "k")
			if !o.Allowed() {
				t.Fatalf("request %d is denied", i)
			}
			o.End(core.Result{})
		}
		time.Sleep(time.Second) // of the bubble: the last ending is answered
		synctest.Wait()
	})
}

func TestEndingsAreDroppedWhereTooManyWaitAndReleasesNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemote(0)
		b.hung = make(chan struct{})
		var dropped, ended atomic.Int64
		l := core.MustNew(core.Config[string]{Backend: b,
			Observer: core.ObserverFuncs[string]{OnEnd: func(s limits.Settlement) {
				ended.Add(1)
				if errors.Is(s.Err, backends.ErrEndingDropped) {
					dropped.Add(1)
				}
			}}, Rules: []core.Rule[string]{{
				Name: "rate", Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Key: self,
				FinalCost: func(core.Result) int64 { return 0 },
			}}})
		holds := core.MustNew(core.Config[string]{Backend: b,
			Rules: []core.Rule[string]{{Name: "busy", Limit: limits.Concurrent(100_000), Key: self}}})
		const n = 20_000
		for range n {
			o := decideOn(l, "k")
			o.End(core.Result{})
			held := decideOn(holds, "k")
			held.End(core.Result{})
		}
		if d := dropped.Load(); d == 0 || d > n-16_000 {
			t.Errorf("%d of %d endings are dropped", d, n)
		}
		close(b.hung)
		synctest.Wait()
		if ended.Load() != n {
			t.Errorf("%d of %d endings are reported", ended.Load(), n)
		}
		left := holdsLeft(t, b.Memory, "busy", "k", limits.Concurrent(100_000))
		if left != 100_000 {
			t.Errorf("%d units are still held", 100_000-left)
		}
	})
}

func holdsLeft(t *testing.T, b backends.Backend, scope, key string, limit limits.Limit) int64 {
	t.Helper()
	out := make([]limits.Decision, 1)
	if err := b.Take(t.Context(), []backends.Charge{{Scope: scope, Key: key, Limit: limit}}, out); err != nil {
		t.Fatal(err)
	}
	return out[0].Remaining
}

// A fallback starts from what is held. The backend is not told of what the fallback has
// allowed, so that afterwards as many requests may run besides.
func TestAFallbackKnowsWhatIsHeld(t *testing.T) {
	limit := limits.Concurrent(3)
	for name, fallback := range map[string]backends.Backend{
		"a Memory": memory.MustNew(memory.Options{}), "wrapped": &settlingWrapper{wrapper{memory.MustNew(memory.Options{})}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newRemote(0)
				var seen settled
				l := core.MustNew(core.Config[string]{Backend: b, Fallback: fallback,
					Observer: core.ObserverFuncs[string]{OnEnd: seen.observe},
					Rules:    []core.Rule[string]{{Name: "busy", Limit: limit, Key: self}}})
				var under []core.Outcome
				start := func(fails bool, want int) { // makes five requests
					t.Helper()
					before := len(under)
					b.fails.Store(fails)
					for range 5 {
						if o := decideOn(l, "k"); o.Allowed() {
							under = append(under, o)
						}
					}
					if got := len(under) - before; got != want {
						t.Errorf("%d more are allowed, want %d", got, want)
					}
				}
				end := func(n int) {
					for i := range under[:n] {
						under[i].End(core.Result{})
					}
					under = under[n:]
					synctest.Wait()
				}
				start(false, 3)
				start(true, 0) // it knows of the three
				b.fails.Store(false)
				end(2)
				start(true, 2)
				start(false, 2) // besides the two that the backend does not know
				start(true, 0)
				b.fails.Store(false)
				end(1) // which the backend has decided
				start(true, 0)
				start(false, 1)
				end(2) // which the fallback has decided
				start(false, 0)
				if left := holdsLeft(t, fallback, "busy", "k", limit); left != 0 {
					t.Errorf("%d of 3 are free in the fallback while 3 run", left)
				}
				end(len(under))
				for _, b := range []backends.Backend{b, fallback} {
					if left := holdsLeft(t, b, "busy", "k", limit); left != 3 {
						t.Errorf("%d of 3 are free in a %T when all have ended", left, b)
					}
				}
				if len(seen.all) != 8 {
					t.Errorf("%d of 8 ends are reported", len(seen.all))
				}
				for _, s := range seen.all {
					if s.Returned != 1 || s.Err != nil {
						t.Errorf("settled %+v", s)
					}
				}
			})
		})
	}
}

func TestAFallbackOutsideThisProcessStartsFromNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, fallback, limit := newRemote(0), newRemote(0), limits.Concurrent(2)
		l := core.MustNew(core.Config[string]{Backend: b, Fallback: fallback,
			Rules: []core.Rule[string]{{Name: "busy", Limit: limit, Key: self}}})
		var under []core.Outcome
		for i := range 6 {
			b.fails.Store(i >= 3)
			synctest.Wait()
			if o := decideOn(l, "k"); o.Allowed() {
				under = append(under, o)
			}
		}
		if len(under) != 4 {
			t.Errorf("%d run, want 2 of each", len(under))
		}
		b.fails.Store(false)
		for _, o := range under {
			o.End(core.Result{})
		}
		synctest.Wait()
		if here, there := holdsLeft(t, fallback, "busy", "k", limit), holdsLeft(t, b, "busy", "k", limit); here != 2 ||
			there != 2 {
			t.Errorf("%d and %d of 2 are free when all have ended", here, there)
		}
	})
}

// settlingWrapper is a wrapper that settles.
type settlingWrapper struct{ wrapper }

func (w *settlingWrapper) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	return backends.Settle(ctx, w.inner, endings, out)
}

func TestALocalRuleIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemote(0)
		l := core.MustNew(core.Config[string]{Backend: b, Rules: []core.Rule[string]{
			{Name: "local", Local: true, Limit: limits.FixedWindow(limits.PerDay(3)), Key: self},
			{Name: "busy", Local: true, Limit: limits.Concurrent(1), Key: self},
			{Name: "afar", Limit: limits.FixedWindow(limits.PerDay(2)), Key: self, OnFailure: core.FailClosed},
		}})
		first := decideOn(l, "k")
		asked := b.calls.Load()
		if second := decideOn(l, "k"); second.Allowed() || b.calls.Load() != asked ||
			second.At(2).Source != limits.SourceNotAsked || second.At(1).Source != limits.SourceLocal {
			t.Errorf("denied here: %+v, and the backend is asked %d times more", second.At(2), b.calls.Load()-asked)
		}
		first.End(core.Result{})
		b.fails.Store(true)
		if o := decideOn(l, "k"); o.Verdict() != core.Unavailable {
			t.Errorf("verdict %v with a failed backend", o.Verdict())
		}
		b.fails.Store(false)
		second := decideOn(l, "k")
		second.End(core.Result{})
		third := decideOn(l, "k") // denied by the backend: the third local unit comes back
		fourth := decideOn(l, "k")
		if !second.Allowed() || third.Allowed() || fourth.Allowed() || fourth.At(0).Remaining != 0 || !fourth.At(0).Allowed {
			t.Errorf("second %v, third %v, fourth %v: %+v", second.Allowed(), third.Allowed(), fourth.Allowed(), fourth.At(0))
		}
		if held := l.State().Held; held != 0 {
			t.Errorf("%d held", held)
		}
	})
}

// One unit of a key that was known already did not come back: its ticket said nothing.
func TestALocalUnitComesBackWhenTheBackendDenies(t *testing.T) {
	choices := []limits.Limit{
		limits.TokenBucket(limits.PerDay(9), 9), limits.LeakyQueue(limits.PerDay(9), 9), limits.FixedWindow(limits.PerDay(9)),
		limits.SlidingWindow(limits.PerDay(9)),
		limits.AnchoredWindow(limits.PerDay(9)), limits.SlidingLog(limits.PerDay(9)), limits.Ban(limits.PerDay(9), time.Hour),
	}
	for _, limit := range choices {
		synctest.Test(t, func(t *testing.T) {
			l := core.MustNew(core.Config[string]{Backend: newRemote(0), Rules: []core.Rule[string]{
				{Name: "local", Local: true, Limit: limit, Key: self},
				{Name: "afar", Limit: limits.FixedWindow(limits.PerDay(2)), Key: self},
			}})
			for i, remain := range []int64{8, 7, 6, 6, 6} { // a denial shows the unit as taken
				if o := decideOn(l, "k"); o.Allowed() != (i < 2) || o.At(0).Remaining != remain {
					t.Errorf("%v: request %d: allowed %v, %d remain here, want %d", limit.Algorithm(), i+1, o.Allowed(),
						o.At(0).Remaining, remain)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func TestACapacityRuleSays503(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "full", DenyAs503: true, Limit: limits.Concurrent(1), Key: func(string) (string, error) { return "", nil }},
		{Name: "client", Limit: limits.Concurrent(1), Key: self},
	}})
	decideOn(l, "a")
	other, same := decideOn(l, "b"), decideOn(l, "a")
	if other.Status() != 503 || other.Verdict() != core.Denied || same.Status() != 429 {
		t.Errorf("full: %d, full and too many: %d; want 503 and 429", other.Status(), same.Status())
	}
}

func TestNewReportsRulesThatCannotEnd(t *testing.T) {
	final := func(core.Result) int64 { return 0 }
	for _, test := range []struct {
		want string
		rule core.Rule[string]
	}{
		{"cannot end what it charges", core.Rule[string]{Limit: limits.FixedWindow(limits.PerDay(1)), FinalCost: final}},
		{"cannot end what it charges", core.Rule[string]{Limit: limits.Concurrent(1)}},
		{"a concurrency limit has none", core.Rule[string]{Limit: limits.Concurrent(1), FinalCost: final, Local: true}},
	} {
		test.rule.Name, test.rule.Key = "r", self
		_, err := core.New(core.Config[string]{Backend: plainBackend{memory.MustNew(memory.Options{})},
			Rules: []core.Rule[string]{test.rule}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one that says %q", err, test.want)
		}
	}
}

func TestACostOrLimitThatIsNotLegalIsAFailure(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{
		{Name: "busy", Limit: limits.Concurrent(100), Key: self, Cost: func(key string) int64 { return int64(len(key)) }},
		{Name: "plan", Key: self, OnFailure: core.FailOpen,
			LimitFor: func(string, string) (limits.Limit, error) { return limits.Concurrent(5), nil }},
	}})
	if o := decideOn(l, strings.Repeat("k", 65)); o.Verdict() != core.Unavailable ||
		!strings.Contains(o.Err().Error(), "at most 64") {
		t.Errorf("a cost of 65: %v, %v", o.Verdict(), o.Err())
	}
	o := decideOn(l, strings.Repeat("k", 64))
	if !o.Allowed() || !strings.Contains(o.Err().Error(), "must not return a concurrency limit") {
		t.Errorf("LimitFor returns a concurrency limit: %v, %v", o.Verdict(), o.Err())
	}
	o.End(core.Result{})
}

// What counts only at its end counts one, or nobody would ever be banned.
func TestAFailureCountsThoughItsEstimateIsNothing(t *testing.T) {
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "ban", Limit: limits.Ban(limits.PerMinute(4), time.Hour), Key: self, Cost: func(string) int64 { return 0 },
		FinalCost: core.OnStatus(func(status int) bool { return status == 401 }),
	}}})
	for i, end := range []core.Result{
		{Status: 401}, {Status: 200}, {Left: true}, {Panicked: true, Status: 200}, {Status: 401},
	} {
		o := decideOn(l, "ann")
		if !o.Allowed() {
			t.Fatalf("request %d is denied", i)
		}
		o.End(end)
	}
	if o := decideOn(l, "ann"); o.Allowed() {
		t.Error("four failures are no ban")
	}
}
