package redisbackend

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lines are the lines to the servers of a client.
type lines struct {
	client     redis.Scripter
	once       bool // the client would send calls again: see unrepeatedCommand
	redirects  bool // the client follows redirections of a Cluster, or may
	endsOnTime bool // see endsCallsOnTime
	maxCalls   int  // under way to each server
	logger     *slog.Logger
	patience   time.Duration // quietFor; tests are more patient
	late       lateness

	partitioner atomic.Pointer[partitioner] // nil: one script decides all keys
	only        *line                       // nil: there are several servers
	serverOf    func(name string) (*redis.Client, error)
	learn       func(ctx context.Context, name string) error // once before serverOf; or nil

	known    atomic.Bool // learn has succeeded
	mu       sync.Mutex
	attempt  *learning // call of learn under way; nil: none
	byServer atomic.Pointer[map[*redis.Client]*line]
}

// learning is a call of lines.learn. err is set before done is closed.
type learning struct {
	done chan struct{}
	err  error
}

const (
	// mostCalls bounds maxCalls if the pool of the client is larger, or hidden as that of an
	// auto-pipeliner.
	mostCalls = 16

	// maxLines is how many lines are kept. The servers of a Cluster come and go. Above maxLines
	// idle lines are dropped.
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
			return client.MasterForKey(context.Background(), name) // no I/O after learn
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

// learnSlots makes the backend group keys by slot from now on, after a CROSSSLOT error has shown
// that the client hides a Cluster. It returns false if the client cannot be asked slot by slot.
func (ls *lines) learnSlots() bool {
	hiding, ok := ls.client.(processor)
	if ok && ls.partitioner.Load() == nil {
		locate := bySlot(hiding)
		ls.partitioner.CompareAndSwap(nil, &locate)
	}
	return ok
}

// callsOf returns how many calls to one server may be under way: PoolSize, 16 at most.
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

// lineOf returns the line to the server that keeps a name.
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
	if byServer := ls.byServer.Load(); byServer != nil {
		if l := (*byServer)[server]; l != nil {
			return l, nil
		}
	}
	return ls.add(server), nil
}

// learnFirst waits until learn has returned, or ctx ends. Callers share one attempt.
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
	if byServer := ls.byServer.Load(); byServer != nil {
		if l := (*byServer)[server]; l != nil {
			return l
		}
		for other, l := range *byServer {
			if len(*byServer) < maxLines || !l.idle() {
				next[other] = l
			}
		}
	}
	l := newLine(ls, server.Options().Addr)
	next[server] = l
	ls.byServer.Store(&next)
	return l
}

// othersAreWell reports whether any server is well besides those of the excluded lines.
func (ls *lines) othersAreWell(excluded ...*line) bool {
	byServer := ls.byServer.Load()
	if byServer == nil {
		return false
	}
	now := time.Now()
next:
	for _, l := range *byServer {
		for _, other := range excluded {
			if l == other {
				continue next
			}
		}
		if l.health.isWell(now) {
			return true
		}
	}
	return false
}

// blame returns the error of failing servers. It is spared if another server is well: then the
// breaker does not count it.
func (ls *lines) blame(err error, failing ...*line) error {
	if ls.only != nil || !ls.othersAreWell(failing...) {
		return err
	}
	return spared{err}
}

// mayBeLate reports whether a request may be sent although its context has ended with err, because
// its budget passed while this process ran late.
func (ls *lines) mayBeLate(err error) bool {
	if err != context.DeadlineExceeded {
		return false
	}
	return ls.late.within(ls.late.measure(), time.Second) >= lateEnough
}

// run runs batches. Each gets an error of its own.
func (ls *lines) run(ctx context.Context, clock *serverClock, list []*batch) {
	calls := make([]*scriptCall, len(list))
	for i, b := range list {
		b.expect(clock)
		b.once = b.once || ls.once // see unrepeatedCommand
		calls[i] = &b.scriptCall
	}
	run(ctx, ls.client, calls...)
}

// mayHaveRun reports whether a server may have run a script although the client returned err.
//
// Even after a redirection or a failed dial it may. A ClusterClient sends such commands of a
// pipeline a second time. If the connection then breaks before the reply to one of them, the
// commands behind it keep the error of the first time, but a server may have run them.
func (ls *lines) mayHaveRun(err error) bool {
	var network *net.OpError
	switch {
	case err == nil || errors.Is(err, errDown):
		return false
	case answers(err):
		return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
	case errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Op == "dial":
		return ls.redirects
	}
	return true
}
