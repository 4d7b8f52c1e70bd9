package conform

import (
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// exact decides by weir's own limit in memory, at instants that the check chooses. Instants must not
// go back.
type exact struct {
	bound *memory.Bound
	now   time.Time
}

// newExact returns an exact whose key is fresh. limit is legal.
func newExact(limit limits.Limit) *exact {
	e := &exact{}
	store := memory.MustNew(memory.Options{MaxKeys: 16, Clock: func() time.Time { return e.now }})
	var err error
	if e.bound, err = store.Bind("conform", limit); err != nil {
		panic(err) // Parse has read the limit
	}
	return e
}

// take decides n units at an instant; 0 looks without taking.
func (e *exact) take(at time.Time, n int64) limits.Decision {
	e.now = at
	d, _ := e.bound.Take("key", n) // cannot fail: there is one limit, and n is not negative
	return d
}

// left returns how many units are left at an instant, and takes none.
func (e *exact) left(at time.Time) int64 { return e.take(at, 0).Remaining }

// comparison is the result of [compare].
type comparison struct {
	sent, judged, failed int
	denied               int         // of those that were judged
	wrong                int         // keys with a difference
	first                *difference // that with the fewest requests before it
	history              []exchange  // those requests, and the one with the difference
}

// compare compares the answers to each key with a limit.
func compare(limit limits.Limit, keys [][]exchange) (c comparison) {
	var (
		mu      sync.Mutex // guards c
		workers sync.WaitGroup
	)
	next := make(chan []exchange)
	for range 2 {
		workers.Go(func() {
			for answers := range next {
				d, judged := differ(limit, answers)
				mu.Lock()
				c.sent, c.judged, c.failed = c.sent+len(answers), c.judged+judged, c.failed+count(answers).failed
				c.denied += count(answers[:judged]).denied
				if d != nil {
					c.wrong++
				}
				if d != nil && (c.first == nil || d.at < c.first.at) {
					c.first, c.history = d, answers[:d.at+1]
				}
				mu.Unlock()
			}
		})
	}
	for _, answers := range keys {
		next <- answers
	}
	close(next)
	workers.Wait()
	return c
}

// difference is the first answer that no instants of the requests explain.
type difference struct {
	at   int // index of the answer
	text string
}

// differ compares the answers to one key, which were sent one after the other, with a limit. It
// returns nil if there are instants between sending and answer that explain all of them, as far as
// it can tell, and how many answers it judged.
//
// Two runs of the model follow the answers. In the early one every admitted request was decided as
// early as it can have been admitted, so the key has the most units left: an admitted request for
// which none is left is wrong. In the late one every admitted request was decided as late as
// possible, so the least is left: a denied request for which one is left is wrong. Under a limit
// that never has less left if requests come earlier, both are certain. Anchored windows are not
// such a limit: differ judges a key until an answer may belong to either of two windows.
//
// A request that the late run cannot admit was decided earlier than that, or others before it were.
// The late run then has too little. A window or a log forgets that after two periods, and no denial
// is judged before. A bucket has at most its capacity, so the late one lacks less than a unit: until
// it has been empty for the time of a unit, two have to be left. So have they in a sliding window,
// whose part of the window before is no whole number: limiters round it down, up, or to the nearest.
func differ(limit limits.Limit, answers []exchange) (found *difference, judged int) {
	early, late := newExact(limit), newExact(limit)
	rate := limit.Rate()
	unit := rate.Period / time.Duration(rate.Units)
	traits := &algorithm.Of(limit.Algorithm()).Traits
	anchored := traits.Ends && !traits.Aligned // a window begins with a request
	var (
		blindUntil        time.Time // denials before it are not judged
		lacking           bool      // the late run of a bucket lacks a part of a unit
		earlyEnd, lateEnd time.Time // when the key is fresh
	)
	for i, x := range answers {
		from, to := x.sent.Add(-clockGrain), x.answered.Add(clockGrain)
		if x.failed() {
			return nil, judged // it may have counted, or not
		}
		if anchored && from.Before(lateEnd) && !to.Before(earlyEnd) {
			return nil, judged
		}
		judged++
		if x.denied() {
			least := int64(1)
			if lacking || traits.Fades {
				least = 2
			}
			if !from.Before(blindUntil) && late.left(from) >= least {
				return &difference{i, "denied, though a unit is left"}, judged
			}
			continue
		}
		d := early.take(from, 1)
		if at := time.UnixMicro(d.At).Add(d.RetryAfter); !d.Allowed && at.After(to) {
			return &difference{i, fmt.Sprintf("admitted, though none is left for another %v",
				at.Sub(to).Round(time.Millisecond))}, judged
		} else if !d.Allowed {
			d = early.take(at, 1)
		}
		earlyEnd = time.UnixMicro(d.At).Add(d.ResetAfter)
		if from.After(lateEnd.Add(unit)) {
			lacking = false
		}
		if d = late.take(to, 1); !d.Allowed {
			if lacking = traits.Drains; !lacking {
				blindUntil = to.Add(2 * rate.Period)
			}
		}
		lateEnd = time.UnixMicro(d.At).Add(d.ResetAfter)
	}
	return nil, judged
}
