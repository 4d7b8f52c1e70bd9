package world

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/stats"
)

// Process is a program with a client, a stack and a limiter.
type Process struct {
	world   *World
	name    string
	limiter *core.Limiter[Request]
	backend *redisbackend.Backend
	stack   *breaker.Stack
	client  redis.UniversalClient
	stats   *stats.Stats
	settles map[string]bool // rules with a final cost
	ends    bool            // a rule has an end

	mu     sync.Mutex
	killed bool
	ended  bool
}

// Request is what a client asks for.
type Request struct {
	Key   string
	Cost  int64
	Alone bool // nobody else asks for the key, and no earlier request for it is under way

	// Final is what it costs in the end, of rules with a final cost.
	Final int64

	// Waited says that the same request was denied before, and that RetryAfter is over.
	Waited bool
}

// Spending is a rule that each request charges Estimate, and then what it cost. Nobody is denied.
func Spending() core.Rule[Request] {
	return core.Rule[Request]{
		Name: "spending", Limit: spendingLimit, Key: func(r Request) (string, error) { return r.Key, nil },
		Cost: func(Request) int64 { return Estimate }, FinalCost: func(r core.Result) int64 { return r.Bytes },
	}
}

// Estimate is what a request is charged before its cost is known.
const Estimate = 5

var spendingLimit = core.FixedWindow(core.PerDay(1_000_000_000))

// Budget is how long a decision may wait for Redis.
const Budget = 50 * time.Millisecond

// HoldTime is how long a unit of a dead process is held.
const HoldTime = 3 * time.Second

// Start starts a process with these rules.
func (w *World) Start(name string, rules ...core.Rule[Request]) *Process {
	p := &Process{world: w, name: name, stats: stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	p.client = p.connect()
	quiet := slog.New(slog.DiscardHandler)
	p.backend = redisbackend.New(p.client, redisbackend.Options{HoldTime: HoldTime, Logger: quiet})
	p.stack = breaker.NewStack(p.backend, breaker.Options{Budget: Budget, Logger: quiet})
	p.settles = make(map[string]bool)
	for _, r := range rules {
		p.settles[r.Name] = r.FinalCost != nil
		p.ends = p.ends || r.FinalCost != nil || r.Limit.Algorithm() == core.AlgorithmConcurrent
	}
	p.limiter = core.MustNew(core.Config[Request]{
		Rules: rules, Backend: p.stack,
		Observe:    stats.Observe[Request](p.stats.Limiter("all")),
		ObserveEnd: w.laws.settles,
	})
	return p
}

// connect returns a client of all servers.
func (p *Process) connect() redis.UniversalClient {
	w := p.world
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		for _, s := range w.servers {
			if s.name == addr {
				return w.path(p, s).dial(ctx)
			}
		}
		return nil, &net.AddrError{Err: "no such server", Addr: addr}
	}
	switch w.topology {
	case Ring:
		addrs := make(map[string]string)
		for _, s := range w.servers {
			addrs[s.name] = s.name
		}
		return redis.NewRing(&redis.RingOptions{Addrs: addrs, Dialer: dial, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	case Cluster:
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{w.servers[0].name}, Dialer: dial, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return w.slots(), nil },
		})
		// The first command has the client ask for what commands there are, under a lock, and
		// time in a bubble stands still while somebody waits for a lock.
		client.Get(context.Background(), "first")
		time.Sleep(100 * time.Millisecond)
		return client
	}
	return redis.NewClient(&redis.Options{Addr: w.servers[0].name, Dialer: dial, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
}

// Ask has the process decide a request, which then takes as long as work. It returns the
// outcome, after the request has ended.
func (p *Process) Ask(ctx context.Context, r Request, work time.Duration) core.Outcome {
	begun := time.Now()
	o := p.limiter.Decide(ctx, r)
	u := p.world.laws.decided(p, r, begun, o)
	if o.Allowed() {
		time.Sleep(work)
		p.world.laws.ended(p, r, u)
		o.End(core.Result{Status: 200, Bytes: r.Final})
	}
	return o
}

// Kill ends the process as kill -9 does: its connections break at once, and what it does from
// now on counts no more.
func (p *Process) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	for _, path := range p.world.pathsOf(p) {
		path.reset()
	}
}

// Stop ends the process as a good program ends. It has to have no requests.
func (p *Process) Stop() {
	p.mu.Lock()
	done := p.ended
	p.ended = true
	p.mu.Unlock()
	if done {
		return
	}
	p.backend.Close()
	p.client.Close()
}

func (p *Process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}
