package redisbackend

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lines are the lines to the servers of a client.
type lines struct {
	client     redis.Scripter
	once       bool // the client would send calls again, see unrepeatedCommand
	redirects  bool // the client belongs to a Cluster, or may
	endsOnTime bool // the client ends calls at the deadline of their context
	maxCalls   int  // calls under way to each
	logger     *slog.Logger
	patience   time.Duration // quietFor
	late       lateness

	partitioner atomic.Pointer[partitioner]                  // nil: one step decides all
	only        *line                                        // nil: there are several
	serverOf    func(name string) (*redis.Client, error)     // the server that keeps a name
	learn       func(ctx context.Context, name string) error // learns what serverOf needs; nil: nothing

	known    atomic.Bool
	mu       sync.Mutex
	attempt  *learning // under way; nil: none
	byServer atomic.Pointer[map[*redis.Client]*line]
}

// learning is an attempt to learn where names are kept. err is set before done is
// closed.
type learning struct {
	done chan struct{}
	err  error
}

const (
	// mostCalls bounds the calls under way to a server if its pool has more connections, or if
	// the client hides it, as an auto-pipeliner does.
	mostCalls = 16

	// maxLines is how many lines are kept. The servers of a Cluster come and go; above
	// the maximum, lines without work are dropped.
	maxLines = 64
)

func newLines(client redis.Scripter, logger *slog.Logger) *lines {
	ls := &lines{client: client, maxCalls: callsOf(client), logger: logger, patience: quietFor}
	_, isSingle := client.(single)
	_, isRing := client.(ring)
	ls.redirects = !isSingle && !isRing
	switch client := client.(type) {
	case cluster:
		ls.once = true
		ls.serverOf = func(name string) (*redis.Client, error) {
			return client.MasterForKey(context.Background(), name) // does not wait any more
		}
		ls.learn = func(ctx context.Context, name string) error {
			_, err := client.MasterForKey(ctx, name)
			return err
		}
	case ring:
		ls.once = true
		ls.serverOf = client.GetShardClientForKey
	default:
		ls.endsOnTime = endsCallsOnTime(client)
		ls.only = newLine(ls, "")
	}
	return ls
}

// learnSlots notes that the client hides a Cluster, as a CROSSSLOT error shows, unless it is known to.
// It reports whether the client can be asked slot by slot.
func (ls *lines) learnSlots() bool {
	hiding, ok := ls.client.(processor)
	if ok && ls.partitioner.Load() == nil {
		locate := bySlot(hiding)
		ls.partitioner.CompareAndSwap(nil, &locate)
	}
	return ok
}

// callsOf returns how many calls a client can have under way to one server.
func callsOf(client redis.Scripter) int {
	size := 0
	switch client := client.(type) {
	case single:
		size = client.Options().PoolSize
	case interface{ Options() *redis.ClusterOptions }:
		size = client.Options().PoolSize
	case ring:
		size = client.Options().PoolSize
	}
	if size <= 0 {
		return mostCalls
	}
	return min(size, mostCalls)
}

// of returns the line of the server that keeps a name.
func (ls *lines) lineOf(ctx context.Context, name string) (*line, error) {
	if ls.only != nil {
		return ls.only, nil
	}
	if ls.learn != nil && !ls.known.Load() {
		if err := ls.learnFirst(ctx, name); err != nil {
			return nil, withoutTLS(advised(err), ls.client)
		}
	}
	server, err := ls.serverOf(name)
	if err != nil {
		return nil, err
	}
	if all := ls.byServer.Load(); all != nil {
		if l := (*all)[server]; l != nil {
			return l, nil
		}
	}
	return ls.add(server), nil
}

// learnFirst waits until a client has learned where names are kept, or ctx ends.
func (ls *lines) learnFirst(ctx context.Context, name string) error {
	ls.mu.Lock()
	attempt := ls.attempt
	if attempt == nil {
		attempt = &learning{done: make(chan struct{}), err: errExited}
		ls.attempt = attempt
		go ls.runAttempt(context.WithoutCancel(ctx), attempt, name)
	}
	ls.mu.Unlock()
	select {
	case <-attempt.done:
		return attempt.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (ls *lines) runAttempt(ctx context.Context, attempt *learning, name string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			attempt.err = panicked(v)
		}
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.attempt = nil
		ls.known.Store(attempt.err == nil)
		close(attempt.done)
	}()
	attempt.err = ls.learn(ctx, name)
}

func (ls *lines) add(server *redis.Client) *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	next := make(map[*redis.Client]*line)
	if all := ls.byServer.Load(); all != nil {
		if l := (*all)[server]; l != nil {
			return l
		}
		for other, l := range *all {
			if len(*all) < maxLines || !l.idle() {
				next[other] = l
			}
		}
	}
	l := newLine(ls, server.Options().Addr)
	next[server] = l
	ls.byServer.Store(&next)
	return l
}

// othersAreWell reports whether a server other than those of some lines is well.
func (ls *lines) othersAreWell(excluded ...*line) bool {
	all := ls.byServer.Load()
	if all == nil {
		return false
	}
	now := time.Now()
next:
	for _, l := range *all {
		for _, other := range excluded {
			if l == other {
				continue next
			}
		}
		if l.isWell(now) {
			return true
		}
	}
	return false
}

// blame returns the error of failing servers, marked as spared if another server is well.
func (ls *lines) blame(err error, failing ...*line) error {
	if ls.only != nil || !ls.othersAreWell(failing...) {
		return err
	}
	return spared{err}
}

// mayBeLate reports whether a request may be sent although its context has ended with err:
// its budget passed because this process runs late.
func (ls *lines) mayBeLate(err error) bool {
	if err != context.DeadlineExceeded {
		return false
	}
	return ls.late.within(ls.late.measure(), time.Second) >= lateEnough
}
