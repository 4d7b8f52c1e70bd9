package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// aheadBody is a body whose beginning was read ahead.
//
// A Read of a body cannot be ended without closing it. So a goroutine reads ahead, and where
// that takes too long it is left with the Read that it is in: what that returns is the
// caller's. It ends when the server sends something, or the request's context ends, or the
// caller closes the body.
type aheadBody struct {
	io.ReadCloser               // read by the goroutine until it has ended
	ended         chan struct{} // closed by the goroutine

	mu   sync.Mutex
	read []byte // and not passed on; the Read under way writes behind it
	err  error  // after read
	stop bool
}

// readAhead returns the first bytes of the body of response, most at most: what has come
// within a time, or when ctx ends. It leaves the body as it was.
func readAhead(ctx context.Context, response *http.Response, most int, within time.Duration) []byte {
	room := make([]byte, most)
	b := &aheadBody{ReadCloser: response.Body, ended: make(chan struct{}), read: room[:0]}
	response.Body = b
	go b.fill(room)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-b.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop = true
	return b.read
}

// fill reads until room is full.
func (b *aheadBody) fill(room []byte) {
	defer close(b.ended)
	for b.fillOnce(&room) {
	}
}

// fillOnce calls Read once, and reports whether there is more to read. A panic of Read becomes an
// error: nothing else would recover it on this goroutine.
func (b *aheadBody) fillOnce(room *[]byte) (more bool) {
	n, err := 0, io.ErrUnexpectedEOF // if Read ends the goroutine
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, fmt.Errorf("client: reading a body panicked: %v", v)
		}
		n = max(0, min(n, len(*room)))
		b.mu.Lock()
		defer b.mu.Unlock()
		b.read, *room = b.read[:len(b.read)+n], (*room)[n:]
		b.err = err
		more = !b.stop && err == nil && len(*room) > 0
	}()
	n, err = b.ReadCloser.Read(*room)
	return
}

// Read implements [io.Reader].
func (b *aheadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if len(b.read) == 0 && len(p) > 0 {
		b.mu.Unlock()
		<-b.ended // at the latest when the Read that it is in returns
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	n := copy(p, b.read)
	b.read = b.read[n:]
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}
