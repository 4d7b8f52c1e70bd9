package answer

import (
	"io"
	"net/http"
	"os"
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
	drainTime   = 2 * time.Second        // for one body
	drainPause  = 500 * time.Millisecond // without a byte
	drainPlaces = 256                    // bodies that are read at the same time
)

// taken is how much of a body Go's server takes without a handler: over HTTP/2 the smallest window
// of a stream that is usual, over HTTP/1.1 what it reads after the handler. fasthttp, whose requests
// tell no version here, takes nothing.
var taken = map[int]int64{0: 0, 1: 256 << 10, 2: 64<<10 - 1}

// draining counts the bodies that are read now.
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
	paced, ok := pace(w, body)
	if !ok {
		return
	}
	defer draining.Add(-1)
	if !paced.extend() {
		return // a writer without deadlines: a slow client could hold the handler
	}
	buffer := drainBuffers.Get().(*[16 << 10]byte)
	defer drainBuffers.Put(buffer)
	for most > 0 {
		n, err := paced.Read(buffer[:min(most, int64(len(buffer)))])
		if most -= int64(n); err != nil {
			return
		}
	}
}

// ReadDenied returns the body of a request that is about to be denied, if it has at most most bytes
// and comes in time: see [Drain]. If w has no deadlines, a pause of the body may last as long as that
// of any request.
func ReadDenied(w http.ResponseWriter, r *http.Request, most int64) (body []byte, ok bool) {
	if r.Body == nil || r.ContentLength > most {
		return nil, r.Body == nil
	}
	paced, ok := pace(w, r.Body)
	if !ok {
		return nil, false
	}
	defer draining.Add(-1)
	body, err := io.ReadAll(io.LimitReader(paced, most+1))
	if err != nil {
		_ = r.Body.Close() // so that Drain does not wait for it again
	}
	return body, err == nil && int64(len(body)) <= most
}

// paced is a body that is read for drainTime, and no longer once it pauses for drainPause. Its
// deadline stays after an error: Go's server reads a part of what is left, too.
type paced struct {
	body    io.Reader
	control *http.ResponseController
	end     time.Time
	until   time.Time // the deadline that is set
}

// pace returns a body to read. It is not ok if as many bodies are read as may be at a time;
// otherwise the caller takes one from draining after it.
func pace(w http.ResponseWriter, body io.Reader) (p *paced, ok bool) {
	if draining.Add(1) > drainPlaces {
		draining.Add(-1)
		return nil, false
	}
	return &paced{body: body, control: http.NewResponseController(w), end: time.Now().Add(drainTime)}, true
}

// extend puts the deadline off. It reports whether there are deadlines.
func (p *paced) extend() bool {
	until := time.Now().Add(drainPause)
	if until.After(p.end) {
		until = p.end
	}
	// Each deadline costs a message to the goroutine of the connection.
	if !p.until.IsZero() && until.Sub(p.until) <= drainPause/10 {
		return true
	}
	p.until = until
	return p.control.SetReadDeadline(until) == nil
}

func (p *paced) Read(b []byte) (int, error) {
	if !time.Now().Before(p.end) { // a body that is not of a connection heeds no deadline
		return 0, os.ErrDeadlineExceeded
	}
	p.extend()
	n, err := p.body.Read(b)
	if err == io.EOF {
		_ = p.control.SetReadDeadline(time.Time{}) // the next request on the connection has its own
	}
	return n, err
}
