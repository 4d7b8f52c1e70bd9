package core

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrQueueFull is the error of an outcome that is [Unavailable] because [Config].MaxWaiting
// requests already wait for their turn. [Limiter.Wait] returns it after the rules have allowed the
// request, so the [Observer] has seen an allowed outcome; State.QueueFull counts it. If it is
// frequent, raise MaxWaiting, or lower the capacity of the queue so that fewer requests of one key
// wait.
var ErrQueueFull = errors.New("core: the queue is full")

// defaultMaxWaiting replaces a MaxWaiting of 0.
const defaultMaxWaiting = 10_000

// waitingRoom bounds the number of requests that wait.
type waitingRoom struct {
	// full: requests refused; left: requests that ended while they waited
	waiting, full, left atomic.Int64
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
	err := ctx.Err() // both may have happened
	if err != nil {
		room.left.Add(1)
	}
	return err
}
