package nethttp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrQueueFull is the error of an outcome that is [core.Unavailable] since as many
// requests as [Config].MaxWaiting allows are waiting for their turn.
var ErrQueueFull = errors.New("nethttp: as many requests as MaxWaiting allows are waiting for their turn")

// defaultMaxWaiting is what a MaxWaiting of 0 means.
const defaultMaxWaiting = 10_000

// waitingRoom has a limited number of places. It is safe for concurrent use.
type waitingRoom struct {
	places int64
	taken  atomic.Int64
}

// newWaitingRoom returns a room for maxWaiting requests, or an error.
func newWaitingRoom(maxWaiting int) (*waitingRoom, error) {
	if maxWaiting < 0 {
		return nil, fmt.Errorf("nethttp: max waiting: must be positive, or 0 for %d (got %d)", defaultMaxWaiting, maxWaiting)
	}
	if maxWaiting == 0 {
		maxWaiting = defaultMaxWaiting
	}
	return &waitingRoom{places: int64(maxWaiting)}, nil
}

// enter takes a place and reports whether there was one.
func (room *waitingRoom) enter() bool {
	for {
		taken := room.taken.Load()
		if taken >= room.places {
			return false
		}
		if room.taken.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

func (room *waitingRoom) leave() { room.taken.Add(-1) }

// awaitTurn waits for delay, or until ctx ends, and then returns its error. The
// slot stays spent: those behind were told when they may start, so another
// request could only start beside one of them.
func awaitTurn(ctx context.Context, delay time.Duration) error {
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return ctx.Err() // both may have come, where a delay is short or the process slow
	case <-ctx.Done():
		return ctx.Err()
	}
}
