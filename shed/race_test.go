package shed_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/shed"
)

// Whatever 64 goroutines do at once, never more than the limit are in flight, and nothing is
// left over.
func TestManyGoroutinesNeverExceedTheLimitAndLoseNothing(t *testing.T) {
	seed := testrun.Seed(t)
	for _, maxWait := range []time.Duration{0, 5 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const limit = 20
			var inFlight, handled, answered atomic.Int64
			options := func(classes []shed.Class) shed.Options[request] {
				return shed.Options[request]{
					Classes: classes, MaxWait: maxWait, Limit: limit,
					Classify: func(r *http.Request) int { return int(r.ContentLength) },
					Exempt:   func(r *http.Request) bool { return r.ContentLength == 7 },
				}
			}
			s := shed.MustNew(options(four))
			handler := shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handled.Add(1)
				if r.ContentLength == 7 {
					return
				}
				if n := inFlight.Add(1); n > limit {
					t.Errorf("%d in flight", n)
				}
				d := time.Duration(r.ContentLength*77%13) * time.Millisecond
				time.Sleep(d)
				inFlight.Add(-1)
				switch r.ContentLength {
				case 1:
					w.(http.Flusher).Flush()
					time.Sleep(d)
				case 2:
					panic("oops")
				case 3:
					runtime.Goexit()
				}
			}))
			var all sync.WaitGroup
			for g := range 64 {
				all.Add(1)
				go func() {
					defer all.Done()
					random := rand.New(rand.NewPCG(seed, uint64(g)))
					for range 100 {
						r := httptest.NewRequest("GET", "/", nil)
						r.ContentLength = random.Int64N(9)
						ctx, leave := context.WithTimeout(t.Context(), time.Duration(random.IntN(20))*time.Millisecond)
						done := make(chan struct{})
						go func() {
							defer close(done)
							defer func() { _ = recover() }()
							w := httptest.NewRecorder()
							handler.ServeHTTP(w, r.WithContext(ctx))
							if w.Code == 503 {
								answered.Add(1)
							}
						}()
						<-done
						leave()
						time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
						if g == 0 && random.IntN(4) == 0 {
							if err := s.Replace(options(four[:1+random.IntN(4)])); err != nil {
								t.Error(err)
							}
						}
						if state := s.State(); state.InFlight > limit {
							t.Errorf("%+v", state)
						}
					}
				}()
			}
			all.Wait()
			state := s.State()
			if state.InFlight != 0 || state.Streams != 0 || state.Exempt != 0 || state.Waiting != 0 || state.Oldest != 0 {
				t.Errorf("left over: %+v", state)
			}
			for _, c := range state.Classes {
				if c.InFlight != 0 || c.Waiting != 0 {
					t.Errorf("left over: %+v", c)
				}
			}
			if handled.Load() == 0 || answered.Load() == 0 {
				t.Errorf("%d handled, %d answered 503", handled.Load(), answered.Load())
			}
		})
	}
}
