package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// wrapper is a backend around another, as applications write them.
type wrapper struct{ inner backends.Backend }

func (w *wrapper) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return w.inner.Take(ctx, charges, out)
}

func (w *wrapper) Unwrap() backends.Backend { return w.inner }

// opaque is a wrapper that does not tell what it wraps.
type opaque struct{ backends.Backend }

// always is a backend without a field.
type always struct{}

func (always) Take(context.Context, []backends.Charge, []limits.Decision) error { return errBroken }

// outer has its backend as a first field, at the same address.
type outer struct{ asking.Broken }

var brokenVariable = asking.Broken{Err: errBroken}

// on returns a limiter with a rule of the scope "clients", whose limit is 10.
func on(b backends.Backend, rule string) *core.Limiter[request] {
	return core.MustNew(core.Config[request]{Backend: b, Rules: []core.Rule[request]{
		{Name: rule, Scope: "clients", Limit: limits.FixedWindow(limits.PerDay(10)), Key: byUser},
	}})
}

var users atomic.Int64

// admitted returns how many of 60 requests of one new user the limiters admit in
// turn.
func admitted(limiters ...*core.Limiter[request]) (n int) {
	user := fmt.Sprint("user ", users.Add(1))
	for i := range 60 {
		if o := limiters[i%len(limiters)].Decide(context.Background(), request{user: user}); o.Allowed() {
			n++
		}
	}
	return n
}

func TestFourRoutesOnABackendThatIsDownAdmitOneLimit(t *testing.T) {
	cached := func(b backends.Backend) backends.Backend {
		return remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
	}
	for name, stores := range map[string]func(b *asking.Broken) [4]backends.Backend{
		"the same": func(b *asking.Broken) [4]backends.Backend { return [4]backends.Backend{b, b, b, b} },
		"wrapped by each": func(b *asking.Broken) [4]backends.Backend {
			return [4]backends.Backend{cached(b), &wrapper{b}, b, cached(b)}
		},
		"wrapped three times": func(b *asking.Broken) [4]backends.Backend {
			return [4]backends.Backend{b, cached(&wrapper{cached(b)}), b, b}
		},
		"wrapped by a value": func(b *asking.Broken) [4]backends.Backend {
			return [4]backends.Backend{b, valueWrapper{b}, b, valueWrapper{b}}
		},
		"an opaque wrapper": func(b *asking.Broken) [4]backends.Backend {
			w := &opaque{b}
			return [4]backends.Backend{w, w, cached(w), w}
		},
		"a package's variable": func(*asking.Broken) [4]backends.Backend {
			b := &brokenVariable
			return [4]backends.Backend{b, cached(b), b, b}
		},
		"a part of another": func(*asking.Broken) [4]backends.Backend {
			b := &struct {
				name string
				part asking.Broken
			}{part: asking.Broken{Err: errBroken}}
			return [4]backends.Backend{&b.part, cached(&b.part), &b.part, &b.part}
		},
		"wrapped in a circle": func(*asking.Broken) [4]backends.Backend {
			w := &circle{}
			return [4]backends.Backend{w, w, w, w}
		},
		"wraps nothing": func(*asking.Broken) [4]backends.Backend {
			w := &empty{}
			return [4]backends.Backend{w, w, w, w}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var limiters []*core.Limiter[request]
			for i, b := range stores(&asking.Broken{Err: errBroken}) {
				limiters = append(limiters, on(b, fmt.Sprint("route ", i)))
				runtime.GC() // nothing of it goes while it is in use
			}
			if n := admitted(limiters...); n != 10 {
				t.Errorf("%d were admitted, want 10", n)
			}
		})
	}
}

// valueWrapper is a wrapper that is no pointer.
type valueWrapper struct{ backends.Backend }

func (w valueWrapper) Unwrap() backends.Backend { return w.Backend }

// circle says that it wraps itself.
type circle struct{ asking.Broken }

func (c *circle) Unwrap() backends.Backend { return c }

// empty says that it wraps a nil pointer.
type empty struct{ asking.Broken }

func (*empty) Unwrap() backends.Backend { return (*asking.Broken)(nil) }

func TestBackendsThatAreNotOneHaveFallbacksOfTheirOwn(t *testing.T) {
	part := &outer{asking.Broken{Err: errBroken}}
	one, other := &asking.Broken{Err: errBroken}, &asking.Broken{Err: errBroken}
	small := [2]*tiny{new(tiny), new(tiny)} // which the allocator may put into one block
	for name, stores := range map[string][2]backends.Backend{
		"two":                              {one, other},
		"two small ones":                   {small[0], small[1]},
		"two, wrapped alike":               {&wrapper{one}, &wrapper{other}},
		"two opaque wrappers of one":       {&opaque{one}, &opaque{one}},
		"a struct and its first field":     {part, &part.Broken},
		"equal values":                     {always{}, always{}},
		"pointers to nothing":              {&always{}, &always{}},
		"values that cannot be compared":   {uncomparable{nil}, uncomparable{nil}},
		"equal values that hold a pointer": {opaque{one}, opaque{one}},
	} {
		if n := admitted(on(stores[0], "one"), on(stores[1], "other")); n != 20 {
			t.Errorf("%s: %d were admitted, want 10 by each", name, n)
		}
	}
}

type tiny struct{ _ byte }

func (*tiny) Take(context.Context, []backends.Charge, []limits.Decision) error { return errBroken }

type uncomparable struct{ _ []int }

func (uncomparable) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errBroken
}

func TestAFallbackThatIsGivenIsNotShared(t *testing.T) {
	down := &asking.Broken{Err: errBroken}
	given := core.MustNew(core.Config[request]{
		Backend: down, Fallback: memory.MustNew(memory.Options{}),
		Rules: []core.Rule[request]{
			{Name: "given", Scope: "clients", Limit: limits.FixedWindow(limits.PerDay(10)), Key: byUser},
		},
	})
	if n := admitted(on(down, "shared"), given); n != 20 {
		t.Errorf("%d were admitted, want 10 by each", n)
	}
}

func TestASharedFallbackIsMadeOnceByAllWhoNeedIt(t *testing.T) {
	down := &refusing{}
	var limiters []*core.Limiter[request]
	for i := range 4 {
		limiters = append(limiters, on(down, fmt.Sprint("route ", i)))
	}
	var all sync.WaitGroup
	var allowed atomic.Int64
	for i := range 60 {
		all.Go(func() {
			o := limiters[i%4].Decide(context.Background(), request{user: "ann"})
			if o.Verdict() == core.Unavailable {
				t.Errorf("the first request failed: %v", o.Err())
			}
			if o.Allowed() {
				allowed.Add(1)
			}
		})
	}
	all.Wait()
	if n := allowed.Load(); n != 10 {
		t.Errorf("%d of 60 requests at once were admitted, want 10", n)
	}
}

// refusing is a backend that is down for everybody at once.
type refusing struct{ _ [64]byte }

func (*refusing) Take(context.Context, []backends.Charge, []limits.Decision) error { return errBroken }

// A limiter that is made when a configuration is loaded again goes on where the
// one before it left off.
func TestAFallbackOutlivesItsLimiters(t *testing.T) {
	down := &asking.Broken{Err: errBroken}
	user := request{user: fmt.Sprint("user ", users.Add(1))}
	for range 10 {
		decide(t, on(down, "old"), user, core.Allowed)
	}
	collect(t, func() bool { return true })
	decide(t, on(down, "new"), user, core.Denied)
}

func TestNoFallbackIsMadeBeforeItIsNeededAndNoneKeepsItsBackend(t *testing.T) {
	const stores = 100
	var gone atomic.Int64
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := make([]*core.Limiter[request], stores)
	for i := range kept {
		b := &asking.Broken{Err: errBroken}
		runtime.AddCleanup(b, func(n int64) { gone.Add(n) }, 1)
		kept[i] = on(b, "rule")
	}
	if after := heap(); after > before+8<<20 { // one fallback alone is 10 MiB
		t.Errorf("%d limiters that never fell back have %d MiB", stores, (after-before)>>20)
	}
	decide(t, kept[0], request{user: "ann"}, core.Allowed)
	clear(kept)
	collect(t, func() bool { return gone.Load() > stores*9/10 && core.Fallbacks() < stores/10 })
	if after := heap(); after > before+8<<20 {
		t.Errorf("without backends %d MiB are left", (after-before)>>20)
	}
}

// collect collects garbage until so is true.
func collect(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		runtime.GC()
		if so() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a minute later what nobody uses is still there")
		}
	}
}

func TestWhatHoldsANilPointerIsRefused(t *testing.T) {
	rules := []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}}
	for what, b := range map[string]backends.Backend{
		"*memory.Memory": (*memory.Memory)(nil), "*remote.DenialCache": (*remote.DenialCache)(nil),
		"*asking.Broken": (*asking.Broken)(nil), "*core_test.always": (*always)(nil),
	} {
		_, err := core.New(core.Config[request]{Backend: b, Fallback: b, Rules: rules, Instances: -1})
		for _, want := range []string{"core: backend: is a nil " + what, "core: fallback: is a nil " + what, "instances"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one that says %q", err, want)
			}
		}
		if _, err := remote.NewDenialCache(b, remote.DenialCacheOptions{}); err == nil ||
			!strings.Contains(err.Error(), "is nil (got "+what) {
			t.Errorf("a denial cache around a nil %s: error %v, want one that says so", what, err)
		}
	}
	if _, err := core.New(core.Config[request]{Rules: rules}); err != nil {
		t.Errorf("nil itself is the default: %v", err)
	}
}

func TestADenialCacheUnwrapsToItsInnerBackend(t *testing.T) {
	inner := &asking.Broken{Err: errors.New("its own")}
	if got := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{}).Unwrap(); got != inner {
		t.Errorf("it unwraps to %v", got)
	}
}

// decidesAll would decide every limit, if it worked.
type decidesAll struct{ asking.Broken }

func (*decidesAll) Supports(limits.Limit) bool { return true }

// A fallback counts kinds apart, as the backend does: a ban that is charged in turn with a rate,
// under one scope and key, bans.
func TestAFallbackCountsKindsApart(t *testing.T) {
	ban, rate := limits.Ban(limits.Per(5, 10*time.Minute), time.Hour), limits.SlidingLog(limits.PerHour(7))
	synctest.Test(t, func(t *testing.T) {
		l := core.MustNew(core.Config[limits.Limit]{Backend: &decidesAll{}, Rules: []core.Rule[limits.Limit]{{
			Name: "login", Key: func(limits.Limit) (string, error) { return "k", nil },
			LimitFor: func(l limits.Limit, _ string) (limits.Limit, error) { return l, nil },
		}}})
		admitted := map[limits.Limit]int{}
		for range 24 * 60 {
			for _, limit := range []limits.Limit{ban, rate} {
				if o := l.Decide(t.Context(), limit); o.Verdict() == core.Allowed {
					admitted[limit]++
				} else if o.At(0).Source != limits.SourceFallback {
					t.Fatalf("got %v from %v: %v", o.Verdict(), o.At(0).Source, o.Err())
				}
			}
			time.Sleep(time.Minute)
		}
		// The ban admits 5 in five minutes and then none for an hour; the log 7 an hour.
		if admitted[ban] != 5*23 || admitted[rate] != 7*24 {
			t.Errorf("%d under the ban, %d under the rate", admitted[ban], admitted[rate])
		}
	})
}
