package faults

import (
	"bytes"
	"io"
	"net"
	"time"
)

// wire is one direction of a long way: what is written to it arrives half a round
// trip later, in order, however much is on its way already.
type wire struct {
	link  *link
	to    net.Conn
	delay time.Duration
	ready time.Time // nothing arrives earlier than delay after that
	parts chan part
}

type part struct {
	due   time.Time
	bytes []byte
}

// wireTo returns the way to one end of a connection: direction 0 leads to the
// server.
func (p *proxy) wireTo(l *link, to net.Conn, direction int64) io.WriteCloser {
	if p.trip == 0 {
		return noWire{to}
	}
	w := &wire{link: l, to: to, delay: p.trip / 2, ready: time.Now(), parts: make(chan part, 1024)}
	if direction == 0 {
		w.ready = w.ready.Add(time.Duration(p.handshake) * p.trip)
	}
	p.ends.Go(w.deliver)
	return w
}

func (w *wire) Write(b []byte) (int, error) {
	start := time.Now()
	if start.Before(w.ready) {
		start = w.ready
	}
	w.parts <- part{start.Add(w.delay), bytes.Clone(b)}
	return len(b), nil
}

// Close lets what is on its way arrive, if the connection still stands.
func (w *wire) Close() error {
	close(w.parts)
	return nil
}

func (w *wire) deliver() {
	for part := range w.parts {
		w.link.wait(time.Until(part.due))
		w.to.Write(part.bytes) // if it fails, relay sees why
	}
}

// noWire is no way at all.
type noWire struct{ io.Writer }

func (noWire) Close() error { return nil }
