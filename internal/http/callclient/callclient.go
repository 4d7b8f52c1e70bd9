// Package callclient keeps remote procedure calls to the limits of servers, by the pacer of package
// client.
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

// New returns a client, or an error that reports every mistake in o. That Base is set is one: calls
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

// Answer is how an attempt ends.
type Answer struct {
	Code   uint32        // as gRPC and Connect number them
	Fields http.Header   // of the response, by canonical names
	Retry  time.Duration // of RetryInfo; 0: there is none
}

// exhausted and unavailable are the codes that deny, with a wait. Without one, they say other things as
// well: that a message is too large, or a server not there.
const (
	exhausted   = 8
	unavailable = 14
)

// told returns what the pacer is told of a.
func (a *Answer) told() pacing.Answer {
	status := gate.StatusOfCode(a.Code)
	if a.Retry == 0 && a.Fields.Get("Retry-After") == "" && (a.Code == exhausted || a.Code == unavailable) {
		status = http.StatusInternalServerError
	}
	return pacing.Answer{Status: status, Fields: a.Fields, Wait: a.Retry}
}

// isNone reports whether the server has said nothing: the client has ended the call, or there is no
// connection. All that a server sends has fields.
func (a *Answer) isNone() bool { return a.Code != 0 && a.Retry == 0 && len(a.Fields) == 0 }

// Do makes a call by attempt, as often as limits and options allow. It returns nil once an attempt has ended
// in a way that goes back to the caller, which is that of the last attempt. Otherwise nothing was sent, or
// nothing since a denial, and the error is a [*client.WaitError] or that of the context.
func (c *Client) Do(ctx context.Context, call Call, attempt func() Answer) error {
	turn := c.begin(ctx, call)
	defer turn.End()
	for {
		if err := turn.Wait(ctx); err != nil {
			return err
		}
		if a := attempt(); a.isNone() || !turn.Observe(ctx, a.told()) {
			return nil
		}
	}
}

// Stream is a stream under way. Its methods are safe for concurrent use.
type Stream struct {
	ctx      context.Context
	turn     pacing.Turn
	answered sync.Once
	over     sync.Once

	mu      sync.Mutex
	silent  *time.Timer // guarded by mu
	unwatch func() bool // of the end of ctx; guarded by mu
}

// silence is how long a stream may say nothing before it counts as allowed. A server that has
// nothing to send sends no header either: the stream would count for ever as one that is yet to be
// decided, and less would seem to be left than there is. What it says of limits later is not read.
const silence = 10 * time.Second

// Stream begins a stream by open, once limits allow it. A stream is not repeated. It returns an
// error of open, or no stream and an error as of Do. A caller that has a Stream calls Answer and
// End, or ends ctx.
func (c *Client) Stream(ctx context.Context, call Call, open func(*Stream) error) (*Stream, error) {
	call.Once = true
	s := &Stream{ctx: ctx, turn: c.begin(ctx, call)}
	if err := s.turn.Wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock() // ctx may end here
	s.silent = time.AfterFunc(math.MaxInt64, func() { s.Answer(func() Answer { return Answer{} }) })
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

// Answer notes what the server has said at the beginning of the stream, or at its end if that comes
// first. The first call counts. A panic of [client.Options].Observe is dropped: Answer is called by
// gRPC and Connect, which do not expect one.
func (s *Stream) Answer(answer func() Answer) {
	s.answered.Do(func() {
		if a := answer(); !a.isNone() {
			defer func() { recover() }()
			s.turn.Observe(s.ctx, a.told())
		}
	})
}

// End notes the end of the stream.
func (s *Stream) End() {
	s.over.Do(func() {
		s.mu.Lock()
		s.silent.Stop()
		s.unwatch()
		s.mu.Unlock()
		s.answered.Do(func() {}) // what comes now is too late
		s.turn.End()
	})
}
