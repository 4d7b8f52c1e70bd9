package redisbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

// settleBudget is how long a Settle may take.
const settleBudget = time.Second

var errSettleLengths = errors.New("redisbackend: endings and settlements differ in length")

// Settle implements [limits.Settler]. It takes a second at most, and returns an error only
// if endings and out differ in length: what is not known of an ending is in the Err of its
// Settlement. A call whose reply is lost is not sent again, since the server may have run
// it.
func (b *Backend) Settle(ctx context.Context, endings []limits.Ending, out []limits.Settlement) error {
	if len(endings) != len(out) {
		return errSettleLengths
	}
	clear(out)
	ctx, cancel := context.WithTimeout(ctx, max(settleBudget, b.lanes.patience))
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { b.holds.settle(ctx, endings, out) })
	all := b.settlingsOf(endings, out)
	b.settle(ctx, all)
	b.settle(ctx, b.askedAgain(all))
	both.Wait()
	return nil
}

// ServerOf implements [limits.Divided].
func (b *Backend) ServerOf(scope, key string, limit limits.Limit) any {
	if b.lanes.only != nil || b.lanes.learn != nil && !b.lanes.known.Load() {
		return nil
	}
	name := b.name
	if limit.Algorithm() == limits.AlgorithmConcurrent {
		name = b.heldName
	}
	if server, err := b.lanes.serverOf(name(scope, key)); err == nil {
		return server
	}
	return nil
}

// settling is an ending on its way.
type settling struct {
	kind   string // for settle.lua; "": as the ending says
	ending *limits.Ending
	out    *limits.Settlement
	name   string
	limit  *encoded
}

// settlingsOf returns the endings that have something to return or to charge, but for
// those of concurrency limits.
func (b *Backend) settlingsOf(endings []limits.Ending, out []limits.Settlement) (all []*settling) {
	for i := range endings {
		e := &endings[i]
		if e.Limit.Algorithm() == limits.AlgorithmConcurrent || e.Final == e.Taken || e.Final < 0 || e.Taken < 0 {
			continue
		}
		limit, err := b.encode(e.Limit, b.instant())
		if err != nil {
			out[i].Err = fmt.Errorf("redisbackend: limit of scope %q: %w", e.Scope, err)
			continue
		}
		all = append(all, &settling{ending: e, out: &out[i], name: b.name(e.Scope, e.Key), limit: limit})
	}
	return all
}

// askedAgain returns those of all whose calendars were sent for the wrong clock, with the right ones. Nothing was
// returned or charged.
func (b *Backend) askedAgain(all []*settling) (again []*settling) {
	for _, s := range all {
		if !b.calendarClock.learn(s.out.Err) {
			continue
		}
		if limit, err := b.encode(s.ending.Limit, b.instant()); err == nil {
			s.limit, s.out.Err = limit, nil
			again = append(again, s)
		}
	}
	return again
}

// settle settles endings, and sets the out of each.
func (b *Backend) settle(ctx context.Context, all []*settling) {
	items := make([]*item, len(all))
	for i, s := range all {
		kind := cmp.Or(s.kind, "r ")
		if s.ending.Final > s.ending.Taken {
			kind = "c "
		}
		most := max(s.ending.Taken-s.ending.Final, s.ending.Final-s.ending.Taken)
		args := settleArguments(kind, s.limit, s.ending)
		items[i] = &item{key: s.name, args: args, most: most, weight: s.weight() * unitsWeight}
	}
	b.sendItems(ctx, settleScript, items)
	for i, s := range all {
		n, e := items[i].reply, s.ending
		switch err := items[i].err; {
		case err != nil:
			s.out.Err = fmt.Errorf("redisbackend: settle: %w", err)
		case e.Final < e.Taken:
			s.out.Returned = n
		default:
			s.out.Charged, s.out.Forgiven = n, e.Final-e.Taken-n
		}
	}
}

// A ticket is the instant of a taking, modulo two years, or of a sliding window the number
// of its window, and above that the serial of the state that it left. Units of a state that
// was begun, converted or rebased since are not known any more: without the serial, their
// return would be taken out of what others have in use.
const (
	ticketBits = 46
	ticketMask = 1<<ticketBits - 1
)

func ticketOf(at, serial int64) int64 { return serial<<ticketBits | at&ticketMask }

// settleArguments returns the arguments of settle.lua for an ending.
func settleArguments(kind string, limit *encoded, e *limits.Ending) []any {
	ticket := max(0, e.Ticket)
	switch kind {
	case "c ":
		return []any{limit.text, fmt.Sprintf("c %d %d", e.Final-e.Taken, max(0, e.Lasts.Microseconds()))}
	case "g ":
		return []any{limit.text, fmt.Sprintf("g %d 0 %d", e.Taken, ticket)}
	}
	return []any{limit.text, fmt.Sprintf("r %d %d %d %d", e.Taken-e.Final, e.Final, ticket&ticketMask, ticket>>ticketBits)}
}

// ringWeight is how many keys a bucket that remembers levels counts as in a call, refundWeight a log that
// something is returned to. The script ends early if it has to write much of a log.
const (
	ringWeight   = 2
	refundWeight = 2 * logWeight
)

// weight returns how many keys s counts as in a call.
func (s *settling) weight() int {
	switch s.limit.limit.Algorithm() {
	case limits.AlgorithmSlidingLog:
		return refundWeight
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket:
		return ringWeight
	}
	return 1
}
