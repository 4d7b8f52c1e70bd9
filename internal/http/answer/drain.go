package answer

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Drain reads and drops the body of a request that is about to be denied, up to most bytes, so that
// the client sees the denial. Clients that send all of a body before they read wait for room to
// send, until their own time-out: over HTTP/2 Go's server gives room for a MiB and takes nothing of a
// body that no handler reads. Over HTTP/1.1 it takes 256 KiB and then closes the connection, and
// they see a broken pipe.
//
// Drain gives up if the body pauses or is slow. It leaves bodies alone that are longer than most,
// that Go's server takes anyway, that a client has not begun to send (Expect, which Go's server
// hides over HTTP/2), and streams of remote calls, which do not end before their answer.
func Drain(w http.ResponseWriter, r *http.Request, most int64) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody || most <= 0 {
		return
	}
	if drains(r, most) {
		drain(w, r.Body, most)
	}
}

// DrainLimit is the default of the most bytes that Drain reads.
const DrainLimit = 8 << 20

const (
	drainTime  = 2 * time.Second        // for one body
	drainPause = 500 * time.Millisecond // without a byte
	drainPlace = 256                    // bodies that are drained at the same time
)

// taken is how much of a body Go's server takes without a handler: over HTTP/2 the smallest window
// of a stream that is usual, over HTTP/1.1 what it reads after the handler.
var taken = map[int]int64{1: 256 << 10, 2: 64<<10 - 1}

// draining counts the bodies that are drained now.
var draining atomic.Int64

var drainBuffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

func drains(r *http.Request, most int64) bool {
	least, known := taken[r.ProtoMajor]
	switch {
	case !known || r.Method == http.MethodConnect || len(r.Header["Expect"]) > 0:
		return false
	case r.ContentLength > 0:
		return least < r.ContentLength && r.ContentLength <= most
	}
	for _, kind := range r.Header["Content-Type"] {
		if strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect") {
			return false
		}
	}
	return true
}

func drain(w http.ResponseWriter, body io.Reader, most int64) {
	if draining.Add(1) > drainPlace {
		draining.Add(-1)
		return
	}
	defer draining.Add(-1)
	control := http.NewResponseController(w)
	buffer := drainBuffers.Get().(*[16 << 10]byte)
	defer drainBuffers.Put(buffer)
	now := time.Now()
	end, until := now.Add(drainTime), time.Time{}
	for most > 0 {
		// Each deadline costs a message to the goroutine of the connection.
		if pause := now.Add(drainPause); until.IsZero() || pause.Sub(until) > drainPause/10 {
			if pause.After(end) {
				pause = end
			}
			if until = pause; control.SetReadDeadline(until) != nil {
				return // a writer without deadlines: a slow client could hold the handler
			}
		}
		n, err := body.Read(buffer[:min(most, int64(len(buffer)))])
		if err == io.EOF {
			_ = control.SetReadDeadline(time.Time{}) // the next request on the connection has its own
		}
		if most -= int64(n); err != nil {
			return
		}
		now = time.Now()
	}
	// The deadline stays: Go's server reads a part of what is left, too.
}
