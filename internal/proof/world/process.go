package world

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/stats"
)

// Program is the program of a process.
type Program struct {
	Rules []core.Rule[Request]

	// Adapter is the package whose middleware limits requests over HTTP. Clients may also ask the
	// limiter of core directly. "": there is no HTTP.
	Adapter string

	// Lease is redisbackend.Options.Lease.
	Lease time.Duration

	// Announces says that the process announces denials.
	Announces bool

	// Policy is the path of a policy file, which the process watches. The limiter of core has its
	// rules in addition to Rules.
	Policy string

	// HoldTime is redisbackend.Options.HoldTime. 0: [HoldTime].
	HoldTime time.Duration

	// Heartbeat is redisbackend.Options.Heartbeat, and Instances that of core.Config.
	Heartbeat bool
	Instances int

	// Sheds is how many requests over HTTP may be in flight before others are shed. 0: unlimited.
	Sheds int
}

// Request is a request of a client.
type Request struct {
	Key   string
	Cost  int64
	Alone bool // no other client takes units of the key, and no earlier request for it is in flight

	// Final is its final cost under rules with a FinalCost.
	Final int64

	// Direct says that it asks the limiter of core directly.
	Direct bool

	// Waited says that the same request was denied before and its RetryAfter has passed.
	Waited bool
}

// Spending is a rule that charges each request Estimate, and its final cost at its end. It denies
// nothing.
func Spending() core.Rule[Request] {
	return core.Rule[Request]{
		Name: "spending", Limit: spendingLimit,
		Key:       func(r Request) (string, error) { return r.Key, nil },
		Cost:      func(Request) int64 { return Estimate },
		FinalCost: func(r core.Result) int64 { return r.Bytes },
	}
}

// Estimate is what a request is charged before its cost is known.
const Estimate = 5

var spendingLimit = limits.FixedWindow(limits.PerDay(1_000_000_000))

// Budget is how long a decision may wait for Redis.
const Budget = 50 * time.Millisecond

// HoldTime is how long a unit of a dead process stays held.
const HoldTime = 3 * time.Second

// poolSize is so large that no caller waits for a connection: go-redis reuses the timers of waiting
// callers, and those of one bubble do not work in another.
const poolSize = 1000

// Process is a running program.
type Process struct {
	world   *World
	name    string
	program Program
	limiter *core.Limiter[Request]
	site    *site  // nil: all clients ask the limiter
	unwatch func() // stops watching the policy; nil: the program has no policy
	backend *redisbackend.Backend
	bare    *redisbackend.Bare // in backend
	client  redis.UniversalClient
	stats   *stats.Stats
	settles map[string]bool // rules with a final cost
	ends    bool            // a rule has an end

	mu     sync.Mutex
	under  int  // requests under way
	closed bool // accepts no more requests
	killed bool
	ended  bool
}

// Start starts a process.
func (w *World) Start(name string, program Program) *Process {
	p := &Process{
		world: w, name: name, program: program, settles: make(map[string]bool),
		stats: stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)}),
	}
	for _, r := range program.Rules {
		p.settles[r.Name] = r.FinalCost != nil
		p.ends = p.ends || r.FinalCost != nil || r.Limit.Algorithm().Holds()
	}
	p.client = p.connect()
	quiet := slog.New(slog.DiscardHandler)
	p.backend = redisbackend.MustNew(p.client, redisbackend.Options{
		HoldTime: cmp.Or(program.HoldTime, HoldTime), Budget: Budget,
		Lease: program.Lease, Announce: program.Announces, Heartbeat: program.Heartbeat,
		Logger: quiet,
	})
	p.bare, _ = backends.As[*redisbackend.Bare](p.backend)
	w.trace.started(p)
	if program.Adapter != "" {
		p.site = p.serve()
	}
	rules, file := program.Rules, (*policy.Policy[Request])(nil)
	if program.Policy != "" {
		var err error
		if file, err = policy.Load(program.Policy, policy.Names[Request]{}); err != nil {
			w.t.Fatal(err)
		}
		rules = append(slices.Clip(rules), file.Rules()...)
	}
	p.limiter = core.MustNew(core.Config[Request]{
		Rules: rules, Backend: p.backend, Instances: program.Instances,
		Observer: core.ObserverFuncs[Request]{OnEnd: p.settled, Next: p.stats.Limiter("all")},
	})
	if file != nil {
		ctx, stop := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		watching.Go(func() {
			policy.Watch(ctx, file, func(rules []core.Rule[Request]) error {
				return p.limiter.Replace(append(slices.Clip(program.Rules), rules...))
			}, policy.Options{Logger: quiet})
		})
		p.unwatch = func() { stop(); watching.Wait() }
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, p)
	return p
}

func (p *Process) settled(s limits.Settlement) { p.world.laws.settles(p, s) }

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
		return redis.NewRing(&redis.RingOptions{
			Addrs: addrs, Dialer: dial, PoolSize: poolSize, MaxRetries: -1, DialerRetries: 1,
			ContextTimeoutEnabled: true,
		})
	case Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{w.servers[0].name}, Dialer: dial, PoolSize: poolSize, MaxRetries: -1,
			DialerRetries: 1, ContextTimeoutEnabled: true, DisableRoutingPolicies: true,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return w.slots(), nil },
		})
	}
	return redis.NewClient(&redis.Options{
		Addr: w.servers[0].name, Dialer: dial, PoolSize: poolSize, MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true,
	})
}

// Ask sends the process a request that takes as long as work. It returns the outcome after the
// request has ended. It returns false if there is no outcome: the client left, its connection
// broke, or the request was shed.
func (p *Process) Ask(ctx context.Context, r Request, work time.Duration) (core.Outcome, bool) {
	if !p.enter() {
		return core.Outcome{}, false
	}
	defer p.leave()
	if p.site != nil && !r.Direct {
		return p.site.ask(ctx, r, work)
	}
	begun := time.Now()
	o := p.limiter.Decide(ctx, r)
	u := p.world.laws.decided(p, r, begun, o)
	if o.Allowed() {
		time.Sleep(work)
		p.world.laws.ended(p, r, u)
		o.End(core.Result{Status: 200, Bytes: r.Final})
	}
	return o, o.Verdict() != core.Abandoned
}

func (p *Process) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.under++
	return true
}

// arrive counts a request whose client may leave before it ends.
func (p *Process) arrive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under++
}

func (p *Process) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under--
}

// Kill ends the process as kill -9 does: its connections break at once, and its later decisions do
// not count.
func (p *Process) Kill() {
	p.mu.Lock()
	p.killed, p.closed = true, true
	p.mu.Unlock()
	p.world.trace.killed(p)
	for _, path := range p.world.pathsOf(p) {
		path.cut(io.EOF)
	}
}

// Stop ends the process cleanly: it accepts no more requests, and waits for those in flight and for
// their endings.
func (p *Process) Stop() {
	p.mu.Lock()
	ended := p.ended
	p.ended, p.closed = true, true
	p.mu.Unlock()
	if ended {
		return
	}
	for p.busy() {
		time.Sleep(time.Millisecond)
	}
	if p.unwatch != nil {
		p.unwatch()
	}
	if p.site != nil {
		p.site.close()
	}
	if !p.dead() {
		within, cancel := context.WithTimeout(context.Background(), HoldTime)
		endings.Await(within, p.backend)
		cancel()
	}
	p.backend.Close()
	p.client.Close()
}

func (p *Process) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.under > 0
}

func (p *Process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}
