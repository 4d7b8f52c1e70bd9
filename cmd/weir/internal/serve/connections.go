package serve

import (
	"net"
	"sync"
	"sync/atomic"
)

// preface is how many bytes a client sends before all else (RFC 9113, section 3.4).
const preface = 24

// connections is a listener that can close the connections that it has accepted. grpc-go waits
// for every handshake before it tells any connection that the server ends.
type connections struct {
	net.Listener
	mu   sync.Mutex
	open map[*connection]struct{}
}

// Accept returns the next connection.
func (l *connections) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: inner, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[*connection]struct{})
	}
	l.open[c] = struct{}{}
	return c, nil
}

// closeBelow closes the connections of which fewer bytes were read.
func (l *connections) closeBelow(bytes int64) {
	var all []*connection
	l.mu.Lock()
	for c := range l.open {
		if c.read.Load() < bytes {
			all = append(all, c)
		}
	}
	l.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// connection counts the bytes that are read of it.
type connection struct {
	net.Conn
	of   *connections
	read atomic.Int64
}

// Read reads from the connection.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Close closes the connection.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
