package world

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Latency is the latency of a route.
type Latency struct {
	Least, Spread time.Duration // uniformly from Least to Least + Spread
	Burst         time.Duration // added to one chunk in a hundred
	Bytes         int           // bytes a second; 0: unlimited
}

// route is one direction between a process and a server.
type route struct {
	mu      sync.Mutex
	random  *rand.Rand
	latency Latency
	lossy   float64 // the share of chunks that are resent after 200 ms
	silent  bool    // chunks wait until it ends
	ways    []*way
}

// delay returns how long n bytes take, and whether the route is silent.
func (r *route) delay(n int) (d time.Duration, silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d = r.latency.Least
	if r.latency.Spread > 0 {
		d += time.Duration(r.random.Int64N(int64(r.latency.Spread)))
	}
	if r.latency.Burst > 0 && r.random.IntN(100) == 0 {
		d += r.latency.Burst
	}
	if r.latency.Bytes > 0 {
		d += time.Duration(n) * time.Second / time.Duration(r.latency.Bytes)
	}
	if r.lossy > 0 && r.random.Float64() < r.lossy {
		d += 200 * time.Millisecond // the shortest retransmission timeout of Linux
	}
	return d.Truncate(time.Microsecond), r.silent
}

func (r *route) set(change func(r *route)) {
	r.mu.Lock()
	was := r.silent
	change(r)
	ways := slices.Clone(r.ways)
	resumed := was && !r.silent
	r.mu.Unlock()
	if resumed {
		for _, w := range ways {
			w.resume()
		}
	}
}

func (r *route) enter(w *way) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ways = append(r.ways, w)
}

func (r *route) leave(w *way) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ways = slices.DeleteFunc(r.ways, func(other *way) bool { return other == w })
}

// path is the network between a process and a server.
type path struct {
	process *Process
	server  *Server
	there   *route // to the server
	back    *route

	mu      sync.Mutex
	conns   []*connection
	stale   time.Time // when a client last closed a broken connection
	refuses bool
}

type connection struct {
	client, server *end
	broken         bool // guarded by its path
}

// newConnection returns a connection over two routes.
func newConnection(there, back *route, client, server string) *connection {
	out, in := newWay(there), newWay(back)
	there.enter(out)
	back.enter(in)
	return &connection{
		client: &end{in: in, out: out, name: client, peer: server},
		server: &end{in: out, out: in, name: server, peer: client},
	}
}

// dial connects. Like TCP, it fails at once if the server is dead, and waits while the path is
// silent or the server is stopped.
func (p *path) dial(ctx context.Context) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for { // a round trip
		there, silent := p.there.delay(60)
		back, also := p.back.delay(60)
		if p.process.dead() {
			return nil, refused
		}
		if !silent && !also {
			if err := sleep(ctx, there+back); err != nil {
				return nil, err
			}
			break
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil { // TCP resends SYN
			return nil, err
		}
	}
	redis := p.server.listener()
	p.mu.Lock()
	refuses := p.refuses
	p.mu.Unlock()
	if redis == nil || refuses || p.process.dead() {
		return nil, refused
	}
	c := newConnection(p.there, p.back, p.process.name, p.server.name)
	c.server.onRead = p.server.tick
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	c.client.onClose = func() {
		p.mu.Lock()
		p.conns = slices.DeleteFunc(p.conns, func(other *connection) bool { return other == c })
		if c.broken {
			p.stale = time.Now()
		}
		p.mu.Unlock()
		p.back.leave(c.client.in)
	}
	c.server.onClose = func() { p.there.leave(c.client.out) } // bytes sent before still arrive
	c.server.in.setStopped(p.server.isStopped())
	redis.Server().ServeConn(c.server)
	return c.client, nil
}

func (p *path) connections() []*connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

// cut breaks all connections with an error: see [end.cut].
func (p *path) cut(err error) {
	for _, c := range p.breakAll() {
		c.client.cut(err)
	}
}

// forget makes all connections half-open: they look open to both sides, but nothing arrives.
func (p *path) forget() {
	for _, c := range p.breakAll() {
		c.client.in.lose()
		c.client.out.lose()
	}
}

func (p *path) breakAll() []*connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.broken = true
	}
	return slices.Clone(p.conns)
}

// refuse makes the server refuse connections, or accept them again.
func (p *path) refuse(refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = refuses
}

// isStale reports whether the client had a broken connection since an instant. Each may fail a
// decision, since a half-open connection looks intact, and a breaker may open for a second.
func (p *path) isStale(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stale.Add(2*time.Second).Before(since) ||
		slices.ContainsFunc(p.conns, func(c *connection) bool { return c.broken })
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
