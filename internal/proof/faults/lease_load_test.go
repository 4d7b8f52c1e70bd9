package faults

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// heldLimit is leased for 250 ms. Of its 1,000 units a second a calm load asks for 600.
var heldLimit = limits.TokenBucket(limits.PerMinute(60_000), 5000)

const leasersOf = 3 // instances

// leasers is instances with leases that ask for one key until they are told to end.
type leasers struct {
	key   string
	all   []*leaser
	phase atomic.Int32
	flood atomic.Bool // ask without pause, and not calmly
	ended chan struct{}
	group sync.WaitGroup
}

// leaser is one of them.
type leaser struct {
	backend *redisbackend.Backend
	limiter *core.Limiter[string]

	mu       sync.Mutex
	admitted []admission
	by       [4][limits.SourceNotAsked]int // decisions, by phase and source
	denied   [4]int
	longest  time.Duration // that a decision took during the fault
}

// spending is the phase after the fault in which the limit is spent.
const spending = after + 1

type admission struct {
	at     int64
	source limits.Source
}

// startLeasers starts instances with clients of their own, asking for key.
func startLeasers(t *testing.T, key string, client func() redis.UniversalClient) *leasers {
	l := &leasers{key: key, ended: make(chan struct{})}
	for range leasersOf {
		c := client()
		t.Cleanup(func() { c.Close() })
		backend := redisbackend.MustNew(c, redisbackend.Options{
			Lease: time.Second, OpenFor: 250 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		in := &leaser{backend: backend, limiter: core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{{Name: "s", Limit: heldLimit, Key: self}}, Backend: backend,
		})}
		l.all = append(l.all, in)
		for range 2 {
			l.group.Go(func() { l.work(t, in) })
		}
	}
	t.Cleanup(l.end)
	return l
}

func (l *leasers) end() {
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
	l.group.Wait()
}

func (l *leasers) work(t *testing.T, in *leaser) {
	for {
		phase := l.phase.Load()
		asked := time.Now()
		o := in.limiter.Decide(t.Context(), l.key)
		took := time.Since(asked)
		d := o.At(0)
		in.mu.Lock()
		in.by[phase][d.Source]++
		if phase == during {
			in.longest = max(in.longest, took)
		}
		if o.Allowed() {
			in.admitted = append(in.admitted, admission{d.At, d.Source})
		} else {
			in.denied[phase]++
		}
		in.mu.Unlock()
		pause := 10 * time.Millisecond
		if l.flood.Load() {
			if pause = time.Millisecond; o.Allowed() {
				pause = 0
			}
		}
		select {
		case <-l.ended:
			return
		case <-time.After(pause):
		}
	}
}

// await waits until so is true of every instance.
func (l *leasers) await(t *testing.T, what string, so func(*leaser) bool) {
	t.Helper()
	eventually(t, what, func() bool {
		for _, in := range l.all {
			in.mu.Lock()
			is := so(in)
			in.mu.Unlock()
			if !is {
				return false
			}
		}
		return true
	})
}

// leaseFault is what happens to the server, and how often it loses its data.
type leaseFault struct {
	name         string
	strike, heal func()
	lost         int
}

// outlast has instances live through a fault. What they hold is spent, then they fall back.
// When the backend decides again, nothing is admitted on top: what Redis and leases have
// admitted, merged by the time of the server, fits the limit as the exact model counts it;
// where the server lost its data, but for a fresh limit and what was held. What each
// fallback has admitted fits the limit as well.
func (l *leasers) outlast(t *testing.T, f leaseFault) {
	t.Helper()
	l.await(t, "all instances hold units",
		func(in *leaser) bool { return in.by[before][limits.SourceLease] > 100 && in.backend.Leases().Held > 0 })
	held := int64(0)
	for _, in := range l.all {
		held += in.backend.Leases().Held
	}
	l.phase.Store(during)
	struck := time.Now()
	f.strike()
	l.await(t, "all instances fall back", func(in *leaser) bool { return in.by[during][limits.SourceFallback] > 50 })
	f.heal()
	l.phase.Store(after)
	l.await(t, "Redis decides again", func(in *leaser) bool {
		return in.by[after][limits.SourceLease] > 20 && state(in.backend) == "closed"
	})
	again := time.Since(struck)
	l.phase.Store(spending)
	l.flood.Store(true)
	l.await(t, "the limit is spent", func(in *leaser) bool { return in.denied[spending] > 20 })
	l.end()

	var shared []admission
	var by [4][limits.SourceNotAsked]int
	longest := time.Duration(0)
	for i, in := range l.all {
		var own []admission
		for _, a := range in.admitted {
			if a.source == limits.SourceFallback {
				own = append(own, a)
			} else {
				shared = append(shared, a)
			}
		}
		if n := beyond(t, own); n > 0 {
			t.Errorf("instance %d: %d of %d admissions of its fallback are beyond the limit", i, n, len(own))
		}
		for phase := range by {
			for source, n := range in.by[phase] {
				by[phase][source] += n
			}
		}
		longest = max(longest, in.longest)
	}
	_, lease := remote.Leased(heldLimit, time.Second)
	rate := heldLimit.Rate()
	blocks := leasersOf * int(rate.Units*lease.Microseconds()/rate.Period.Microseconds())
	bound := f.lost * (int(heldLimit.Burst()) + blocks)
	over := beyond(t, shared)
	if over > bound {
		t.Errorf("%d of %d admissions by Redis and leases are beyond the limit, want %d at most", over, len(shared), bound)
	}
	t.Logf("FAULT leases, %s: %d units held, %d spent from then on, %d fell back, waits up to %s ms; Redis decided "+
		"again and leases too after %s ms; %d admitted by Redis and leases, %d beyond the limit, bound %d",
		f.name, held, by[during][limits.SourceLease], by[during][limits.SourceFallback]+by[after][limits.SourceFallback],
		ms(longest), ms(again), len(shared), over, bound)
	eventually(t, "nothing is held", func() bool {
		return !slices.ContainsFunc(l.all, func(in *leaser) bool { return in.backend.Leases().Held > 0 })
	})
}

// beyond returns how many admissions do not fit the limit.
func beyond(t *testing.T, admitted []admission) (n int) {
	t.Helper()
	slices.SortStableFunc(admitted, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	var now int64
	model := limitstest.NewExact(func() time.Time { return time.UnixMicro(now) })
	charges, out := []backends.Charge{{Scope: "s", Key: "k", Limit: heldLimit, Cost: 1}}, make([]limits.Decision, 1)
	for _, a := range admitted {
		now = a.at
		if err := model.Take(t.Context(), charges, out); err != nil {
			t.Fatal(fmt.Errorf("the model: %w", err))
		}
		if !out[0].Allowed {
			n++
		}
	}
	return n
}
