package redisbackend

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
			calls = append(calls, unitsOf(all))
			<-goOn
		})
		add := func(limit limits.Limit, name string, at, units int64) *giveBack {
			return q.add(t.Context(), nil, takings(limit, name, at, units))
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

// A client that hangs up all the time costs others one call in 10 ms. What that call cannot
// return stays taken.
func TestTakingsOfCallersWhoHaveLeftAreReturnedByFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		var calls [][]int64
		q := newGiveBacks(func(_ context.Context, all []*settling) {
			at = append(at, time.Since(begun))
			calls = append(calls, unitsOf(all))
			time.Sleep(25 * time.Millisecond)
		})
		fixed, log := limits.FixedWindow(limits.PerHour(100)), limits.SlidingLog(limits.PerHour(100))
		for range 100 { // a crowd at one instant is one taking
			q.gather(t.Context(), nil, takings(fixed, "a", 1, 2))
		}
		time.Sleep(11 * time.Millisecond) // that is sent, and takes 25 ms
		for i := range int64(1000) {
			q.gather(t.Context(), nil, takings(log, "b", i, 1))
		}
		<-q.idle()
		var most []int64
		for range maxWeight / refundWeight {
			most = append(most, 1)
		}
		if diff := cmp.Diff([][]int64{{200}, most}, calls); diff != "" {
			t.Errorf("units of each call: want (-), got (+):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{10 * time.Millisecond, 41 * time.Millisecond}, at); diff != "" {
			t.Errorf("when they are sent: want (-), got (+):\n%s", diff)
		}
	})
}

func takings(limit limits.Limit, name string, at, units int64) []*settling {
	return []*settling{{
		name: name, limit: encode(limit, 0), out: new(limits.Settlement),
		ending: &limits.Ending{Limit: limit, Taken: units, Ticket: at},
	}}
}

func unitsOf(all []*settling) (units []int64) {
	for _, s := range all {
		units = append(units, s.ending.Taken)
	}
	return units
}
