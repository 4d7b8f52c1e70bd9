package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// A request that reaches the server when RetryAfter is over is allowed, and one that reaches it a
// microsecond earlier is denied.
func TestRetryAfterIsTheLeastWaitAcrossANetwork(t *testing.T) {
	const way = time.Millisecond
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.Per(7, 3*time.Second), 5), limits.LeakyBucket(limits.PerSecond(3), 4),
		limits.LeakyQueue(limits.PerSecond(3), 4),
		limits.FixedWindow(limits.PerSecond(5)), limits.SlidingWindow(limits.PerSecond(5)),
		limits.SlidingLog(limits.PerSecond(5)),
		limits.AnchoredWindow(limits.PerSecond(5)), limits.Ban(limits.PerSecond(5), 2*time.Second),
	} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			seed := testrun.Seed(t)
			defer noticeHang(t, seed)()
			synctest.Test(t, func(t *testing.T) {
				w := New(t, seed, One)
				defer w.Close()
				p := w.Start("p", Program{Rules: []core.Rule[Request]{{Name: "r", Limit: limit, Key: self}}})
				path := w.path(p, w.servers[0])
				for _, r := range []*route{path.there, path.back} {
					r.set(func(r *route) { r.latency = Latency{Least: way} })
				}
				random, waits := w.source(), 0
				take := func(cost int64) limits.Decision {
					out := make([]limits.Decision, 1)
					if err := p.bare.Take(t.Context(), []backends.Charge{{Scope: "r", Key: "k", Limit: limit, Cost: cost}},
						out); err != nil {
						t.Fatal(err)
					}
					return out[0]
				}
				take(1) // connects
				for range 200 {
					cost := 1 + random.Int64N(3)
					d := take(cost)
					if d.Allowed {
						time.Sleep(time.Duration(random.Int64N(400_000)) * time.Microsecond)
						continue
					}
					if d.RetryAfter <= 2*way { // over by now
						continue
					}
					waits++
					due := time.UnixMicro(d.At).Add(d.RetryAfter)
					if random.IntN(2) == 0 {
						time.Sleep(time.Until(due) - way - time.Microsecond)
						if early := take(cost); early.Allowed || early.RetryAfter != time.Microsecond {
							t.Fatalf("a microsecond before RetryAfter of %+v is over: %+v", d, early)
						}
						continue
					}
					time.Sleep(time.Until(due) - way)
					if late := take(cost); !late.Allowed || late.At != due.UnixMicro() {
						t.Fatalf("when RetryAfter of %+v is over: %+v", d, late)
					}
				}
				if waits < 5 {
					t.Errorf("%d of 200 waited: the test shows little", waits)
				}
			})
		})
	}
}
