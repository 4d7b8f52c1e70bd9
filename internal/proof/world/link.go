package world

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// way is one direction of a connection: the chunks in flight, and when they arrive.
type way struct {
	mu      sync.Mutex
	route   *route // its delays apply to every write
	queue   []chunk
	latest  time.Time // the latest arrival: no chunk overtakes another
	closed  error     // io.EOF after the last chunk, any other error at once
	lost    bool      // no further chunk arrives, without notice
	stopped bool      // the reader is stopped, as by SIGSTOP
	changed chan struct{}
}

// chunk is the bytes of one call of Write.
type chunk struct {
	at   time.Time // when it arrives; zero: a silent route holds it back
	data []byte
}

func newWay(r *route) *way { return &way{route: r, changed: make(chan struct{})} }

// wakeLocked wakes the reader.
func (w *way) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *way) write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	if w.lost {
		return len(p), nil
	}
	c := chunk{data: append([]byte(nil), p...)}
	if delay, silent := w.route.delay(len(p)); !silent {
		c.at = w.arrivalLocked(delay)
	}
	w.queue = append(w.queue, c)
	w.wakeLocked()
	return len(p), nil
}

func (w *way) arrivalLocked(delay time.Duration) time.Time {
	at := time.Now().Add(delay)
	if at.Before(w.latest) {
		at = w.latest
	}
	w.latest = at
	return at
}

// resume sends the chunks that a silent route held back, as TCP does.
func (w *way) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.queue {
		if w.queue[i].at.IsZero() {
			delay, _ := w.route.delay(len(w.queue[i].data))
			w.queue[i].at = w.arrivalLocked(delay)
		}
	}
	w.wakeLocked()
}

// close ends the way: with io.EOF after the last chunk has arrived, with another error at once. The
// reader itself may close a way that is lost.
func (w *way) close(err error, reader bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost && !reader || w.closed != nil && (w.closed != io.EOF || err == io.EOF) {
		return
	}
	w.closed = err
	if err != io.EOF {
		w.queue = nil
	}
	w.wakeLocked()
}

// cut ends the way at once and loses the chunks in flight.
func (w *way) cut(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lost && (w.closed == nil || w.closed == io.EOF) {
		w.closed, w.queue = err, nil
		w.wakeLocked()
	}
}

// state returns what a look at the socket would find: nil if nothing has arrived.
func (w *way) state() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 && !w.queue[0].at.IsZero() && !w.queue[0].at.After(time.Now()) {
		return errors.New("unread data")
	}
	return w.closed
}

// lose makes the way half-open: present and later chunks never arrive.
func (w *way) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost, w.queue = true, nil
	w.wakeLocked()
}

func (w *way) setStopped(stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = stopped
	w.wakeLocked()
}

// read waits for the first chunk. It fails at the deadline, which may move meanwhile.
func (w *way) read(p []byte, deadline *deadline) (int, error) {
	for {
		until, moved := deadline.get()
		now := time.Now()
		w.mu.Lock()
		changed, wait := w.changed, time.Duration(-1)
		switch {
		case w.closed != nil && w.closed != io.EOF:
			w.mu.Unlock()
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: w.closed}
		case w.stopped:
		case len(w.queue) > 0 && !w.queue[0].at.IsZero() && !w.queue[0].at.After(now):
			n := copy(p, w.queue[0].data)
			if w.queue[0].data = w.queue[0].data[n:]; len(w.queue[0].data) == 0 {
				w.queue = w.queue[1:]
			}
			w.mu.Unlock()
			return n, nil
		case len(w.queue) > 0 && !w.queue[0].at.IsZero():
			wait = w.queue[0].at.Sub(now)
		case len(w.queue) == 0 && w.closed == io.EOF:
			w.mu.Unlock()
			return 0, io.EOF
		}
		w.mu.Unlock()
		if !until.IsZero() {
			left := until.Sub(now)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			if wait < 0 || left < wait {
				wait = left
			}
		}
		if wait < 0 {
			select {
			case <-changed:
			case <-moved:
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// deadline is an instant that may move while a reader waits for it.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{}
}

func (d *deadline) get() (time.Time, chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.at, d.moved
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

// end is one end of a connection.
type end struct {
	in, out       *way
	name, peer    string
	readDeadline  deadline
	writeDeadline deadline
	onRead        func() // called when a chunk has been read
	onClose       func()
	once          sync.Once
}

func (e *end) Read(p []byte) (int, error) {
	n, err := e.in.read(p, &e.readDeadline)
	if n > 0 && e.onRead != nil {
		e.onRead()
	}
	return n, err
}

func (e *end) Write(p []byte) (int, error) {
	if at, _ := e.writeDeadline.get(); !at.IsZero() && !at.After(time.Now()) {
		return 0, os.ErrDeadlineExceeded
	}
	return e.out.write(p)
}

// Close ends both ways: the other side reads the rest, and then io.EOF.
func (e *end) Close() error {
	e.once.Do(func() {
		e.out.close(io.EOF, false)
		e.in.close(net.ErrClosed, true)
		if e.onClose != nil {
			e.onClose()
		}
	})
	return nil
}

// cut ends both ways at once: with syscall.ECONNRESET, or with io.EOF, as a kernel often does for a
// killed process.
func (e *end) cut(err error) {
	e.out.cut(err)
	e.in.cut(err)
}

func (e *end) SetDeadline(at time.Time) error {
	e.readDeadline.set(at)
	e.writeDeadline.set(at)
	return nil
}
func (e *end) SetReadDeadline(at time.Time) error  { e.readDeadline.set(at); return nil }
func (e *end) SetWriteDeadline(at time.Time) error { e.writeDeadline.set(at); return nil }
func (e *end) LocalAddr() net.Addr                 { return addr(e.name) }
func (e *end) RemoteAddr() net.Addr                { return addr(e.peer) }

// SyscallConn is for go-redis, which looks at a connection before it reuses it.
func (e *end) SyscallConn() (syscall.RawConn, error) { return look{e}, nil }

type look struct{ *end }

func (l look) Read(func(uintptr) bool) error { return l.in.state() }
func (look) Write(func(uintptr) bool) error  { return errors.ErrUnsupported }
func (look) Control(func(uintptr)) error     { return errors.ErrUnsupported }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
