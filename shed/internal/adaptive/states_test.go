package adaptive_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/shed/internal/adaptive"
)

// follows says which states a window may lead to. A window in which settling ends is taken as one of
// the state that follows.
var follows = map[string][]string{
	"steady":   {"steady", "draining", "stuck"},
	"draining": {"draining", "settling", "stuck"},
	"settling": {"settling", "steady", "draining", "trying", "probing", "stuck"},
	"trying":   {"trying", "steady", "settling", "stuck"},
	"probing":  {"probing", "steady", "settling", "stuck"},
	"stuck":    {"stuck", "settling"},
}

// watched is a simulated Shedder that records which state follows which.
type watched struct {
	simulated
	algorithm *adaptive.Algorithm
	before    string
	updates   int64
	seen      map[string]int
	wrong     []string
}

func (w *watched) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := w.Acquire(context.Background(), r)
	w.look()
	if permit == nil {
		return nil, false
	}
	return func(failed bool) {
		permit.End(shed.Result{Route: r.Route, Failed: failed})
		w.look()
	}, true
}

func (w *watched) look() {
	updates := w.State().Updates
	if updates == w.updates {
		return
	}
	now, after := w.algorithm.States()
	step := w.before + " to " + now
	w.seen[step]++
	if step == "steady to draining" {
		w.seen[step+", then "+after]++
	}
	if !slices.Contains(follows[w.before], now) {
		w.wrong = append(w.wrong, step)
	}
	if trying := now == "trying" || now == "probing"; trying && after != now {
		w.wrong = append(w.wrong, now+" before "+after)
	}
	w.before, w.updates = now, updates
}

func TestStatesFollowTheTable(t *testing.T) {
	seen := make(map[string]int)
	for _, name := range []string{"pool", "slow-for-good", "slow-30s", "hang", "few"} {
		synctest.Test(t, func(t *testing.T) {
			a := adaptive.New()
			s := mustNewUsing(a, shed.Options[overload.Request]{})
			w := &watched{simulated: simulated{s}, algorithm: a, before: "steady", seen: seen}
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
