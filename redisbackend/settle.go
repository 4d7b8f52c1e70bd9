package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

// Endings are settled by calls of a script of their own, of which each server has one
// under way: takings of other connections come in between. A call is sent at most once.
// Several servers are asked at the same time, so that none waits for another that is silent.

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
	if b.lanes.only != nil {
		b.settleHolds(ctx, endings, out)
		b.settleInTurn(ctx, b.settlingsOf(endings, out))
		return nil
	}
	var servers sync.WaitGroup
	servers.Go(func() { b.settleHolds(ctx, endings, out) })
	for l, all := range b.byServer(ctx, b.settlingsOf(endings, out)) {
		servers.Go(func() { b.settleOnServer(ctx, l, all) })
	}
	servers.Wait()
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

// settlingsOf returns the endings that have something to return or to charge, but for
// those of concurrency limits.
func (b *Backend) settlingsOf(endings []limits.Ending, out []limits.Settlement) (all []*settling) {
	for i := range endings {
		e := &endings[i]
		if e.Limit.Algorithm() == limits.AlgorithmConcurrent || e.Final == e.Taken || e.Final < 0 || e.Taken < 0 {
			continue
		}
		limit, err := b.limits.encode(e.Limit, b.holds.time)
		if err != nil {
			out[i].Err = fmt.Errorf("redisbackend: limit of scope %q: %w", e.Scope, err)
			continue
		}
		all = append(all, &settling{ending: e, out: &out[i], name: b.name(e.Scope, e.Key), limit: limit})
	}
	return all
}

// byServer groups endings by the lane of the server that keeps their key, and sets the
// error of those that have none.
func (b *Backend) byServer(ctx context.Context, all []*settling) map[*lane][]*settling {
	by := make(map[*lane][]*settling)
	for _, s := range all {
		l, err := b.lanes.of(ctx, s.name)
		if err != nil {
			s.fail(err)
			continue
		}
		by[l] = append(by[l], s)
	}
	return by
}

// settleOnServer settles endings on the server of l, on a goroutine of its own.
func (b *Backend) settleOnServer(ctx context.Context, l *lane, all []*settling) {
	now := time.Now()
	err := error(errExited)
	defer func() {
		if v := recover(); v != nil { // of a hook of the client
			err = panicked(v)
		}
		for _, s := range all {
			if err != nil && !s.answered {
				s.fail(err)
			}
		}
	}()
	if l.rests(now) {
		err = errDown
		return
	}
	b.settleInTurn(ctx, all)
	l.noteSilence(now, ctx.Err())
	err = nil
}

// settleInTurn settles endings, as many in one call as a script may settle.
func (b *Backend) settleInTurn(ctx context.Context, all []*settling) {
	for len(all) > 0 {
		n, weight := 0, 0
		for n < len(all) && weight < maxWeight {
			weight += all[n].weight()
			n++
		}
		b.settle(ctx, all[:n])
		all = all[n:]
	}
}

// settleHolds releases the units of concurrency limits.
func (b *Backend) settleHolds(ctx context.Context, endings []limits.Ending, out []limits.Settlement) {
	var held []limits.Ending
	for i := range endings {
		if endings[i].Limit.Algorithm() == limits.AlgorithmConcurrent {
			held = append(held, endings[i])
		}
	}
	if held == nil {
		return
	}
	err := b.releaseHolds(ctx, held)
	for i := range endings {
		if endings[i].Limit.Algorithm() != limits.AlgorithmConcurrent {
			continue
		}
		if out[i].Returned = endings[i].Taken; err != nil {
			out[i] = limits.Settlement{Err: fmt.Errorf("redisbackend: settle: %w", err)}
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

// settling is an ending on its way.
type settling struct {
	ending *limits.Ending
	out    *limits.Settlement
	name   string
	limit  *encoded

	answered bool // out is set
}

func (s *settling) fail(err error) {
	s.out.Err, s.answered = fmt.Errorf("redisbackend: settle: %w", err), true
}

// ringWeight is how many keys a bucket that remembers levels counts as in a call.
const ringWeight = 2

// weight returns how many keys s counts as in a call.
func (s *settling) weight() int {
	switch s.limit.limit.Algorithm() {
	case limits.AlgorithmSlidingLog:
		return logWeight
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket:
		return ringWeight
	}
	return 1
}
