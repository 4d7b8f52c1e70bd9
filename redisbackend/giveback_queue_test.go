package redisbackend

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/limits"
)

// A crowd that is denied together is given back together, by calls that each return what has
// come meanwhile.
func TestWhatWasTakenOfAKeyAtOneInstantIsGivenBackAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int64
		goOn := make(chan struct{})
		q := newGiveBacks(func(_ context.Context, all []*settling) {
			var units []int64
			for _, s := range all {
				units = append(units, s.ending.Taken)
			}
			calls = append(calls, units)
			<-goOn
		})
		add := func(limit limits.Limit, name string, at, units int64) *giveBack {
			return q.add(t.Context(), nil, []*settling{{
				name: name, limit: encode(limit, 0), out: new(limits.Settlement),
				ending: &limits.Ending{Limit: limit, Taken: units, Ticket: at},
			}})
		}
		fixed, anchored := limits.FixedWindow(limits.PerHour(100)), limits.AnchoredWindow(limits.PerHour(100))
		all := []*giveBack{add(fixed, "a", 1, 1)}
		synctest.Wait()
		for range 3 {
			all = append(all, add(fixed, "a", 1, 2), add(fixed, "a", 2, 3), add(fixed, "b", 1, 4), add(anchored, "c", 1, 5))
		}
		close(goOn)
		<-q.idle()
		if diff := cmp.Diff([][]int64{{1}, {6, 9, 12, 5, 5, 5}}, calls); diff != "" {
			t.Errorf("units of each call: want (-), got (+):\n%s", diff)
		}
		for _, g := range all {
			if <-g.done; !g.isReturned() {
				t.Error("not returned")
			}
		}
	})
}
