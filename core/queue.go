package core

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrQueueFull is the error of an outcome that is [Unavailable] because [Config].MaxWaiting requests
// already wait for their turn. If it is frequent, raise MaxWaiting, or lower the capacity of the
// queue so that fewer requests of one key wait.
var ErrQueueFull = errors.New("core: the queue is full")

// defaultMaxWaiting is used if MaxWaiting is 0.
const defaultMaxWaiting = 10_000

// Wait waits for the turn of an allowed request: for [Outcome.Delay] from now on. It returns an
// error, and makes o [Unavailable], if too many wait ([ErrQueueFull]) or ctx ends. The slot stays
// spent: the requests behind have been told when they may start.
func (limiter *Limiter[R]) Wait(ctx context.Context, o *Outcome) error {
	delay := o.Delay()
	if delay <= 0 {
		return nil
	}
	err := limiter.room.wait(ctx, delay)
	if err != nil {
		o.verdict, o.err = Unavailable, errors.Join(o.err, err)
	}
	return err
}

// waitingRoom bounds the number of requests that wait.
type waitingRoom struct {
	waiting, full, left atomic.Int64 // full: requests that were not let in; left: that ended inside
	capacity            int64
}

func (room *waitingRoom) wait(ctx context.Context, delay time.Duration) error {
	for {
		waiting := room.waiting.Load()
		if waiting >= room.capacity {
			room.full.Add(1)
			return ErrQueueFull
		}
		if room.waiting.CompareAndSwap(waiting, waiting+1) {
			break
		}
	}
	defer room.waiting.Add(-1)
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
	case <-ctx.Done():
	}
	err := ctx.Err() // if the delay is short or the process slow, ctx may have ended too
	if err != nil {
		room.left.Add(1)
	}
	return err
}
