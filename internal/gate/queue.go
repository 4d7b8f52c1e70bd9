package gate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrQueueFull is nethttp.ErrQueueFull.
var ErrQueueFull = errors.New("nethttp: the queue is full")

// defaultMaxWaiting is used if MaxWaiting is 0.
const defaultMaxWaiting = 10_000

// waitingRoom bounds the number of waiting requests. It is safe for concurrent use.
type waitingRoom struct {
	capacity int64
	waiting  atomic.Int64

	full, left atomic.Int64 // requests that were not let in, and that ended inside
}

// newWaitingRoom returns a room for maxWaiting requests, or an error if it is negative.
func newWaitingRoom(maxWaiting int) (*waitingRoom, error) {
	if maxWaiting < 0 {
		return nil, fmt.Errorf("nethttp: max waiting: must be positive, or 0 for %d (got %d)", defaultMaxWaiting, maxWaiting)
	}
	if maxWaiting == 0 {
		maxWaiting = defaultMaxWaiting
	}
	return &waitingRoom{capacity: int64(maxWaiting)}, nil
}

// enter lets one request in and reports true, or reports false if the room is full.
func (room *waitingRoom) enter() bool {
	for {
		waiting := room.waiting.Load()
		if waiting >= room.capacity {
			room.full.Add(1)
			return false
		}
		if room.waiting.CompareAndSwap(waiting, waiting+1) {
			return true
		}
	}
}

// leave lets one request out.
func (room *waitingRoom) leave() { room.waiting.Add(-1) }

// awaitTurn waits for delay and returns nil, or returns the error of ctx when it ends.
// The slot stays spent: the requests behind have been told when they may start, so
// another request could only start beside one of them.
func awaitTurn(ctx context.Context, delay time.Duration) error {
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return ctx.Err() // if the delay is short or the process slow, ctx may have ended too
	case <-ctx.Done():
		return ctx.Err()
	}
}
