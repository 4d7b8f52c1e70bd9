package remote_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// instant is a backend that allows at once, so that the time of a decision is the time
// that the breaker adds.
type instant struct {
	honours bool
	err     error
}

func (i *instant) HonoursDeadline() bool { return i.honours }

func (i *instant) Take(_ context.Context, _ []backends.Charge, out []limits.Decision) error {
	for i := range out {
		out[i].Allowed = true
	}
	return i.err
}

// opened returns a breaker that stays open.
func opened(t testing.TB) *remote.Breaker {
	b := remote.MustNewBreaker(
		&instant{true, errDown}, remote.BreakerOptions{Budget: time.Microsecond, OpenFor: time.Hour, Logger: silence},
	)
	for state(b) == "closed" {
		if b.Take(context.Background(), charge("k"), make([]limits.Decision, 1)) == nil {
			t.Fatal("the backend does not fail")
		}
	}
	return b
}

// request returns a context like that of a net/http request.
func request(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx
}

var kinds = map[string]func(t testing.TB) backends.Backend{
	"no breaker": func(testing.TB) backends.Backend { return &instant{} },
	"closed, on the caller's goroutine": func(testing.TB) backends.Backend {
		return remote.MustNewBreaker(&instant{honours: true}, remote.BreakerOptions{Budget: time.Hour, Logger: silence})
	},
	"closed, on its own goroutine": func(testing.TB) backends.Backend {
		return remote.MustNewBreaker(&instant{}, remote.BreakerOptions{Budget: time.Hour, Logger: silence})
	},
	"open": func(t testing.TB) backends.Backend { return opened(t) },
}

func TestADecisionAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	most := map[string]float64{"closed, on the caller's goroutine": 5}
	for name, open := range kinds {
		b, ctx, charges, out := open(t), request(t), charge("k"), make([]limits.Decision, 1)
		if n := testing.AllocsPerRun(1000, func() { b.Take(ctx, charges, out) }); n > most[name] {
			t.Errorf("%s: %v allocations, want %v", name, n, most[name])
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for name, open := range kinds {
		b.Run(name, func(b *testing.B) {
			backend, ctx, charges, out := open(b), request(b), charge("k"), make([]limits.Decision, 1)
			b.ReportAllocs()
			for b.Loop() {
				backend.Take(ctx, charges, out)
			}
		})
	}
}

func BenchmarkTakeParallel(b *testing.B) {
	for name, open := range kinds {
		b.Run(name, func(b *testing.B) {
			backend, ctx := open(b), request(b)
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				charges, out := charge("k"), make([]limits.Decision, 1)
				for pb.Next() {
					backend.Take(ctx, charges, out)
				}
			})
		})
	}
}
