package shed

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/proof/overload"
)

// follows says which states a window may lead to. A window in which settling ends is taken as one of
// the state that follows.
var follows = map[state][]state{
	steady:   {steady, draining, stuck},
	draining: {draining, settling, stuck},
	settling: {settling, steady, draining, trying, probing, stuck},
	trying:   {trying, steady, settling, stuck},
	probing:  {probing, steady, settling, stuck},
	stuck:    {stuck, settling},
}

// watched is a simulated Shedder that records which state follows which.
type watched struct {
	simulated
	before  state
	updates int64
	seen    map[string]int
	wrong   []string
}

func (w *watched) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := w.Acquire(context.Background(), r)
	w.look()
	if permit == nil {
		return nil, false
	}
	return func(failed bool) {
		permit.End(Result{Route: r.Route, Failed: failed})
		w.look()
	}, true
}

func (w *watched) look() {
	a := w.limiter.algorithm.(*adaptive)
	if w.limiter.updates == w.updates {
		return
	}
	step := fmt.Sprint(w.before, " to ", a.state)
	w.seen[step]++
	if step == "steady to draining" {
		w.seen[fmt.Sprint(step, ", then ", a.after)]++
	}
	if !slices.Contains(follows[w.before], a.state) {
		w.wrong = append(w.wrong, step)
	}
	if trying := a.state == trying || a.state == probing; trying && a.after != a.state {
		w.wrong = append(w.wrong, fmt.Sprint(a.state, " before ", a.after))
	}
	w.before, w.updates = a.state, w.limiter.updates
}

func TestStatesFollowTheTable(t *testing.T) {
	seen := make(map[string]int)
	for _, name := range []string{"pool", "slow-for-good", "slow-30s", "hang", "few"} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{simulated: simulated{MustNew(Options[overload.Request]{})}, seen: seen}
			scenario(t, name).Run(w, overload.Options{Load: 1.5, Seed: 1})
			if len(w.wrong) > 0 {
				t.Errorf("%s: %v", name, w.wrong)
			}
		})
	}
	for _, step := range []string{"steady to draining, then steady", "steady to draining, then trying",
		"steady to draining, then probing", "draining to settling", "settling to trying", "settling to steady",
		"trying to steady", "trying to settling", "steady to stuck", "stuck to settling"} {
		if seen[step] == 0 {
			t.Errorf("no scenario goes from %s: %v", step, seen)
		}
	}
}
