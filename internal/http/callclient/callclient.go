// Package callclient keeps remote procedure calls to the limits of servers. It uses the pacer of
// package client.
package callclient

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/internal/http/pacing"
)

// Client keeps calls to limits. It is safe for concurrent use.
type Client struct {
	begin func(context.Context, pacing.Call) pacing.Turn
}

// New returns a client, or an error that reports every mistake in o. Base must not be set: calls
// are sent by their own client.
func New(o client.Options) (*Client, error) {
	begin, err := pacing.New(o)
	if err != nil {
		return nil, err
	}
	return &Client{begin}, nil
}

// Call describes a call for [client.Options].Bucket and events.
type Call = pacing.Call

// Answer is the answer to an attempt.
type Answer struct {
	Code   uint32        // as gRPC and Connect number them
	Fields http.Header   // of the response, by canonical names
	Retry  time.Duration // of RetryInfo; 0: none
}

// These codes deny if a wait comes with them. Without a wait they may mean something else: a
// message that is too large, or a server that is not there.
const (
	exhausted   = 8
	unavailable = 14
)

// pacing returns a as the pacer reads it.
func (a *Answer) pacing() pacing.Answer {
	status := gate.StatusOfCode(a.Code)
	denies := a.Code == exhausted || a.Code == unavailable
	if denies && a.Retry == 0 && a.Fields.Get("Retry-After") == "" {
		status = http.StatusInternalServerError
	}
	return pacing.Answer{Status: status, Fields: a.Fields, Wait: a.Retry}
}

// isNone reports whether the server has sent nothing: the client has ended the call, or there is no
// connection. Everything that a server sends has fields.
func (a *Answer) isNone() bool { return a.Code != 0 && a.Retry == 0 && len(a.Fields) == 0 }

// Do calls attempt as often as limits and options allow. It returns nil if the answer of the last
// attempt goes back to the caller. Otherwise nothing was sent, or nothing since a denial, and the
// error is a [*client.WaitError] or that of the context.
func (c *Client) Do(ctx context.Context, call Call, attempt func() Answer) error {
	turn := c.begin(ctx, call)
	defer turn.End()
	for {
		if err := turn.Wait(ctx); err != nil {
			return err
		}
		if a := attempt(); a.isNone() || !turn.Observe(ctx, a.pacing()) {
			return nil
		}
	}
}

// Stream is a stream in flight. Its methods are safe for concurrent use.
type Stream struct {
	ctx      context.Context
	turn     pacing.Turn
	answered sync.Once
	over     sync.Once

	mu      sync.Mutex
	silent  *time.Timer // guarded by mu
	unwatch func() bool // of the end of ctx; guarded by mu
}

// silence is how long a stream may send nothing before it counts as allowed. A server without
// messages sends no header either. Such a stream would count as undecided for ever, and too little
// would seem to be left. What it tells about limits later is not read.
const silence = 10 * time.Second

// Stream opens a stream with open, once limits allow it. It returns a Stream and the error of open,
// or no Stream and an error as of Do. A stream is not repeated. The caller of a Stream calls Answer
// and End, or ends ctx.
func (c *Client) Stream(ctx context.Context, call Call, open func(*Stream) error) (*Stream, error) {
	call.Once = true
	s := &Stream{ctx: ctx, turn: c.begin(ctx, call)}
	if err := s.turn.Wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock() // ctx may end here, and call End
	allowed := func() Answer { return Answer{} }
	s.silent = time.AfterFunc(math.MaxInt64, func() { s.Answer(allowed) })
	s.unwatch = context.AfterFunc(ctx, s.End)
	s.mu.Unlock()
	opened := false
	defer func() {
		if !opened { // or open panics
			s.End()
		}
	}()
	err := open(s)
	if opened = err == nil; opened {
		s.silent.Reset(silence)
	}
	return s, err
}

// Answer learns from what the server sent at the beginning of the stream, or at its end if that
// comes first. Only the first call counts. Answer drops a panic of [client.Options].Observe: gRPC
// and Connect call Answer and do not expect one.
func (s *Stream) Answer(answer func() Answer) {
	s.answered.Do(func() {
		if a := answer(); !a.isNone() {
			defer func() { recover() }()
			s.turn.Observe(s.ctx, a.pacing())
		}
	})
}

// End ends the stream.
func (s *Stream) End() {
	s.over.Do(func() {
		s.mu.Lock()
		s.silent.Stop()
		s.unwatch()
		s.mu.Unlock()
		s.answered.Do(func() {}) // a later answer does not count
		s.turn.End()
	})
}
