package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/weir-go/weir/benchmarks/topology"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

const (
	failoverPace    = 10 * time.Millisecond // from one request to the next
	failoverKeys    = 60
	failoverTimeout = 2 * time.Second // of nodes of a Cluster
	failoverWatch   = 2 * time.Second // after the first decision
)

// failing is a topology of which a server is about to die.
type failing struct {
	backend *redisbackend.Backend
	keys    []string
	isLost  func(key string) bool // the server that dies has the state of this key
	kill    func()
	replace func() error // what an operator does then; nil: nothing
	isBack  func() bool  // the servers have replaced it, and say so
	close   func()
}

// failover is a row of the table.
type failover struct {
	name  string
	start func(phase time.Duration) (*failing, error)
}

// failoverReading is what one death did.
type failoverReading struct {
	own   time.Duration // until the servers had replaced it
	first time.Duration // until the first decision about a lost key
	last  time.Duration // until the last failure of a lost key
	fell  int           // decisions about lost keys that failed
	spoil int           // decisions about other keys that failed
}

func failovers() []failover {
	all := func(phase time.Duration) (*failing, error) { return failingCluster(false, phase) }
	alone := func(phase time.Duration) (*failing, error) { return failingCluster(true, phase) }
	return []failover{
		{"a master of a Cluster, 60 keys", all},
		{"a master of a Cluster, its keys alone", alone},
		{"a master that a Sentinel watches", failingSentinel},
		{"a master behind HAProxy, by role", failingHAProxy},
		{"a shard of a Ring", failingRing},
	}
}

// openFailing opens a backend that is not to log each failure.
func openFailing(url string) (*redisbackend.Backend, error) {
	return redisbackend.Open(url, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
}

func failingCluster(lostAlone bool, phase time.Duration) (*failing, error) {
	c, err := topology.StartCluster(true, failoverTimeout+phase)
	if err != nil {
		return nil, err
	}
	b, err := openFailing(c.URL("limiter:secret@"))
	if err != nil {
		c.Close()
		return nil, err
	}
	dead, heir := c.Masters[0], c.Replicas[0]
	isLost := func(key string) bool { return c.KeptBy(dead, stateOf(key)) }
	return &failing{
		backend: b, keys: keysOf(isLost, lostAlone), isLost: isLost,
		kill:   dead.Kill,
		isBack: heir.IsMaster,
		close:  func() { b.Close(); c.Close() },
	}, nil
}

func failingSentinel(phase time.Duration) (*failing, error) {
	p, err := topology.StartSentinel(time.Second + phase)
	if err != nil {
		return nil, err
	}
	url := "redis://" + p.Before().Addr + "/0?master_name=limits&username=limiter&password=secret"
	f, err := failingPair(p, url)
	if err == nil {
		f.isBack = func() bool { return p.Address() == p.Replica.Addr }
	}
	return f, err
}

func failingHAProxy(phase time.Duration) (*failing, error) {
	p, err := topology.StartHAProxy()
	if err != nil {
		return nil, err
	}
	f, err := failingPair(p, "redis://limiter:secret@"+p.Before().Addr)
	if err == nil {
		f.isBack = p.Before().LeadsToMaster
		f.replace = func() error {
			time.Sleep(time.Second + phase)
			return p.Promote()
		}
	}
	return f, err
}

// failingPair is a pair that is reached by a URL.
func failingPair(p *topology.Pair, url string) (*failing, error) {
	b, err := openFailing(url)
	if err != nil {
		p.Close()
		return nil, err
	}
	all := func(string) bool { return true }
	return &failing{
		backend: b, keys: keysOf(all, false), isLost: all, kill: p.Master.Kill,
		close: func() { b.Close(); p.Close() },
	}, nil
}

// failingRing kills a shard. Its keys move to the others, where they start afresh.
func failingRing(time.Duration) (*failing, error) {
	shards, err := topology.StartShards(3)
	if err != nil {
		return nil, err
	}
	addrs := make(map[string]string)
	for _, s := range shards {
		addrs[s.Addr] = s.Addr
	}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true,
		NewClient: func(o *redis.Options) *redis.Client {
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
			return redis.NewClient(o)
		},
	})
	b, err := redisbackend.New(ring, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	lost := make(map[string]bool)
	isLost := func(key string) bool { return lost[key] }
	keys := keysOf(isLost, false)
	for _, key := range keys {
		shard, err := ring.GetShardClientForKey(stateOf(key))
		if err != nil {
			return nil, err
		}
		lost[key] = shard.Options().Addr == shards[0].Addr
	}
	return &failing{
		backend: b, keys: keys, isLost: isLost,
		kill:   shards[0].Kill,
		isBack: func() bool { return ring.Len() == 2 },
		close: func() {
			b.Close()
			ring.Close()
			topology.CloseAll(shards...)
		},
	}, nil
}

// stateOf returns the name in Redis of the state of a key of these tables.
func stateOf(key string) string { return "weir:s=" + key }

// keysOf returns keys, or only lost ones.
func keysOf(isLost func(string) bool, lostAlone bool) (keys []string) {
	for i := 0; len(keys) < failoverKeys; i++ {
		if key := fmt.Sprint("client ", i); !lostAlone || isLost(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// failoverLimit denies nothing in these tables.
var failoverLimit = limits.FixedWindow(limits.PerDay(1_000_000))

// asks has a request decided. It returns an error unless Redis has decided.
func asks(b backends.Backend, key string) error {
	charge := backends.Charge{Scope: "s", Key: key, Limit: failoverLimit, Cost: 1}
	return b.Take(context.Background(), []backends.Charge{charge}, make([]limits.Decision, 1))
}

// steadily asks for a key every failoverPace until ctx ends, and tells what came of each request.
// Requests do not wait for each other.
func steadily(
	ctx context.Context, b backends.Backend, keys []string,
	told func(key string, begun time.Time, err error),
) {
	pace := time.NewTicker(failoverPace)
	defer pace.Stop()
	var under sync.WaitGroup
	defer under.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		under.Go(func() {
			key, begun := keys[i%len(keys)], time.Now()
			told(key, begun, asks(b, key))
		})
	}
}

// readFailover starts a topology, kills a server of it, and watches. Its successor comes later by a
// phase, so that it meets a breaker anywhere between two probes.
func readFailover(row failover, phase time.Duration) (r failoverReading, err error) {
	f, err := row.start(phase)
	if err != nil {
		return r, err
	}
	defer f.close()
	for _, key := range f.keys {
		for tries := 0; asks(f.backend, key) != nil; tries++ {
			if tries == 1000 {
				return r, fmt.Errorf("%s: Redis does not decide", row.name)
			}
			time.Sleep(failoverPace)
		}
	}
	ctx, end := context.WithCancel(context.Background())
	var struck atomic.Int64 // Unix nanoseconds
	var mu sync.Mutex
	decided := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		steadily(ctx, f.backend, f.keys, func(key string, begun time.Time, err error) {
			at, lost := struck.Load(), f.isLost(key)
			if at == 0 || begun.UnixNano() < at {
				return
			}
			since := time.Since(time.Unix(0, at))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && !lost:
				r.spoil++
			case err != nil:
				r.fell, r.last = r.fell+1, since
			case lost && r.first == 0 && r.fell > 0:
				r.first = since
				close(decided)
			}
		})
	})
	defer ended.Wait()
	defer end()
	time.Sleep(10 * failoverPace)
	f.kill()
	now := time.Now()
	struck.Store(now.UnixNano())
	if f.replace != nil {
		if err := f.replace(); err != nil {
			return r, err
		}
	}
	for !f.isBack() {
		if time.Since(now) > time.Minute {
			return r, fmt.Errorf("%s: nothing replaces it", row.name)
		}
		time.Sleep(2 * time.Millisecond)
	}
	own := time.Since(now)
	select {
	case <-decided:
	case <-time.After(2 * time.Minute):
		return r, fmt.Errorf("%s: Redis does not decide again", row.name)
	}
	time.Sleep(failoverWatch)
	end()
	ended.Wait()
	r.own = own
	return r, nil
}
