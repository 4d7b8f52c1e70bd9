package faults

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy relays connections to a server, and fails as networks do.
type proxy struct {
	listener  net.Listener
	target    string
	trip      time.Duration // a round trip takes so long, always
	handshake int           // round trips before the first command of a connection sets out

	delay    atomic.Int64 // nanoseconds by which each part of a reply is delayed
	cutEvery atomic.Int64 // parts, after which one is cut in half and its connection reset; 0: never
	silent   atomic.Bool  // nothing arrives on any connection any more

	parts, cuts atomic.Int64

	mu    sync.Mutex
	links map[*link]struct{} // nil: closed
	ends  sync.WaitGroup
}

// link is a connection of a client and the one to the server that belongs to it.
type link struct {
	client, server net.Conn
	halfOpen       atomic.Bool // for good: whatever is sent is lost
	closed         chan struct{}
	close          func() // closes closed; may be called again
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	return startDistantProxy(t, target, 0, 0)
}

// startDistantProxy starts a proxy to a server that is far away, from the first
// connection to the last: a round trip takes so long, and so many of them pass
// before a new connection is of use. That is one for TCP, and more for TLS.
func startDistantProxy(t testing.TB, target string, trip time.Duration, handshake int) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, trip: trip, handshake: handshake, links: make(map[*link]struct{})}
	p.ends.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{client: client, server: server, closed: make(chan struct{})}
		l.close = sync.OnceFunc(func() { close(l.closed) })
		if !p.add(l) {
			l.reset()
			return
		}
		p.ends.Go(func() { p.relay(l, client, server, 0) })
		p.ends.Go(func() { p.relay(l, server, client, 1) })
	}
}

func (p *proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil {
		return false
	}
	l.halfOpen.Store(p.silent.Load())
	p.links[l] = struct{}{}
	return true
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		l.reset()
	}
	p.links = nil
	p.mu.Unlock()
	p.ends.Wait()
}

// relay passes on what comes from one end: a command, or a reply, at a time.
// Every other connection that is cut is cut in a command, the others in a reply.
func (p *proxy) relay(l *link, from, to net.Conn, direction int64) {
	defer func() {
		l.reset()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	w := p.wireTo(l, to, direction)
	defer w.Close()
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		if l.halfOpen.Load() {
			continue
		}
		if delay := time.Duration(p.delay.Load()); direction == 1 && delay > 0 {
			l.wait(delay)
		}
		if every := p.cutEvery.Load(); every > 0 && p.cuts.Load()%2 == direction && p.parts.Add(1)%every == 0 {
			p.cuts.Add(1)
			w.Write(part[:n/2])
			return
		}
		if _, err := w.Write(part[:n]); err != nil {
			return
		}
	}
}

// wait waits for a time, or until the link is reset.
func (l *link) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.closed:
	}
}

// reset ends both connections by RST.
func (l *link) reset() {
	l.close()
	for _, conn := range []net.Conn{l.client, l.server} {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

// reset resets all connections that there are, once.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// fallSilent leaves all connections half-open, and those that are made until
// speak is called.
func (p *proxy) fallSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent.Store(true)
	for l := range p.links {
		l.halfOpen.Store(true)
	}
}

// speak lets new connections work again. Those that are half-open stay so.
func (p *proxy) speak() { p.silent.Store(false) }
