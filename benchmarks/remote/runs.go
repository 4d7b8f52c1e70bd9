package remote

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Runner is a way to limit how many requests of a key run at once in Redis, or a yardstick.
type Runner struct {
	Name    string
	AtOnce  bool  // limits requests at once
	Returns int64 // places or units that the end of a request returns; 0: no end
	Judged  bool  // the cost of its start is limited relative to [OneRate]
	Open    func(client *redis.Client, atOnce int) (Runs, error)
}

// OneRate is the yardstick.
const OneRate = "weir, one rate"

// Runs starts and ends requests.
type Runs interface {
	// Start starts a request of key and returns a function that ends it, to be called once. The
	// function may return before Redis knows the end; Ended counts the end when Redis knows it, or
	// when the contestant gives up. Start returns an error if the contestant failed, or denied the
	// request.
	Start(ctx context.Context, key string) (end func(), err error)

	// Hold starts requests of key that hold the given number of places in total and do not end.
	Hold(ctx context.Context, key string, places int) error

	// Ended counts the requests that have ended.
	Ended() *Ended
}

// Runners returns all of them, peers first.
func Runners() []Runner {
	return []Runner{
		{Name: "Stripe's recipe", AtOnce: true, Returns: 1, Open: openRecipe},
		{Name: "lock, ZADD, ZCARD", AtOnce: true, Returns: 1, Open: openLocked},
		{Name: OneRate, Open: openRules(oneRate)},
		{Name: "weir, two rates", Open: openRules(oneRate, anotherRate)},
		{Name: "weir, rate and concurrency", AtOnce: true, Returns: 1, Judged: true,
			Open: openRules(oneRate, concurrency)},
		{Name: "weir, concurrency", AtOnce: true, Returns: 1, Open: openRules(concurrency)},
		{Name: "weir, rate and FinalCost", Returns: estimate - final,
			Open: openRules(oneRate, finalCost)},
	}
}

// Ended counts requests that have ended.
type Ended struct {
	mu       sync.Mutex
	more     sync.Cond
	count    int64
	dropped  int64
	returned int64
	err      error // error of the first end that failed
}

func newEnded() *Ended {
	e := new(Ended)
	e.more.L = &e.mu
	return e
}

// note counts one ended request with its returned units.
func (e *Ended) note(returned int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	e.returned += returned
	if e.err == nil {
		e.err = err
	}
	e.more.Broadcast()
}

// drop counts one request whose end was not sent because too many waited.
func (e *Ended) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	e.dropped++
	e.more.Broadcast()
}

// Carried returns the number of ended requests that Redis knows of.
func (e *Ended) Carried() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count - e.dropped
}

// Dropped returns the number of ended requests that Redis will never know of.
func (e *Ended) Dropped() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// Count returns the number of ended requests.
func (e *Ended) Count() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count
}

// Returned returns the number of returned places or units.
func (e *Ended) Returned() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returned
}

// Wait waits until n requests have ended. It returns an error if an end failed.
func (e *Ended) Wait(n int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.count < n && e.err == nil {
		e.more.Wait()
	}
	return e.err
}
