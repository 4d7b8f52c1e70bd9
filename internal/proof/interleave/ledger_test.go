package interleave_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/interleave"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// exploreEnds runs a limiter of two requests at once in every order of two tasks. Each ends a copy
// of one outcome, and then begins and ends requests of its own. The record of a request that has
// ended serves the next one: a late end must not end that.
func exploreEnds(o interleave.Options) (orders int, err error) {
	return interleave.Explore(o, func() ([]func(), func() error) {
		var reports atomic.Int64
		store := memory.MustNew(memory.Options{MaxKeys: 16, Clock: interleave.Now})
		limiter := core.MustNew(core.Config[string]{
			Backend: store,
			Rules: []core.Rule[string]{{Name: "at once", Limit: limits.Concurrent(2),
				Key: func(key string) (string, error) { return key, nil }}},
			Observer: core.ObserverFuncs[string]{
				OnEnd: func(limits.Settlement) { reports.Add(1) },
			},
		})
		first := limiter.Decide(context.Background(), "k")
		var own [2]core.Outcome
		task := func(i int, ends bool) func() {
			copied := first
			return func() {
				copied.End(core.Result{})
				own[i] = limiter.Decide(context.Background(), "k")
				copied.End(core.Result{})
				if ends {
					own[i].End(core.Result{})
				}
			}
		}
		return []func(){task(0, false), task(1, true)}, func() error {
			held, ended := 0, int64(1)
			if own[0].Allowed() {
				held++
			}
			if own[1].Allowed() {
				ended++
			}
			state := limiter.State()
			look := limiter.Explain(context.Background(), "k")
			if state.Held != held || int(look.At(0).Remaining) != 2-held || reports.Load() != ended {
				return fmt.Errorf("%d requests run and %d have ended, but the limiter holds %d, leaves %d and "+
					"has reported %d ends", held, ended, state.Held, look.At(0).Remaining, reports.Load())
			}
			return nil
		}
	})
}
