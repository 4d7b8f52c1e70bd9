// Package callclient keeps remote procedure calls to the limits of servers, by a [client.Transport], which
// is made for HTTP.
package callclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/gate"
)

// Client keeps calls to limits. It is safe for concurrent use.
type Client struct{ transport *client.Transport }

// New returns a client. It panics if an option is illegal, or Base is set: calls have their own way.
func New(o client.Options) *Client {
	if o.Base != nil {
		panic("client: base: is for HTTP: calls are sent by their own client: remove it")
	}
	o.Base = base{}
	return &Client{client.New(o)}
}

// Call describes a call for [client.Options].Bucket and events.
type Call struct {
	Scheme, Target string // of the server
	Method         string // "/package.Service/Method"
	Header         http.Header
	Idempotent     bool // may be carried out twice
}

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

// longest is a wait that a client does not believe in full. One of decades would be read as an instant.
const longest = 365 * 24 * time.Hour

// response returns a in the form of HTTP.
func (a *Answer) response(r *http.Request, body io.ReadCloser) *http.Response {
	h, status := a.Fields, gate.StatusOfCode(a.Code)
	if h == nil {
		h = make(http.Header)
	}
	if a.Retry > 0 {
		h.Set("Retry-After", strconv.FormatFloat(min(a.Retry, longest).Seconds(), 'f', 9, 64))
	}
	if h.Get("Retry-After") == "" && (a.Code == exhausted || a.Code == unavailable) {
		status = http.StatusInternalServerError
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: h, Body: body, Request: r,
	}
}

// request returns c in the form of HTTP.
func (c *Call) request(ctx context.Context, body io.ReadCloser, s sender) *http.Request {
	method := http.MethodPost
	if c.Idempotent {
		method = http.MethodGet
	}
	r := &http.Request{
		Method: method, URL: &url.URL{Scheme: c.Scheme, Host: c.Target, Path: c.Method}, Host: c.Target,
		Header: c.Header, Body: body,
	}
	return r.WithContext(context.WithValue(ctx, senderKey{}, s))
}

// sender sends an attempt of the call that a request stands for.
type sender interface {
	send(*http.Request) (*http.Response, error)
}

type senderKey struct{}

// base hands requests to their senders.
type base struct{}

func (base) RoundTrip(r *http.Request) (*http.Response, error) {
	return r.Context().Value(senderKey{}).(sender).send(r)
}

// Do makes a call by attempt, as often as limits and options allow. It returns nil once an attempt has ended
// in a way that goes back to the caller, which is that of the last attempt. Otherwise nothing was sent, or
// nothing since a denial, and the error is a [*client.WaitError] or that of the context.
func (c *Client) Do(ctx context.Context, call Call, attempt func() Answer) error {
	response, err := c.transport.RoundTrip(call.request(ctx, nil, unary(attempt)))
	switch {
	case err == nil:
		response.Body.Close()
		return nil
	case err == errNoAnswer:
		return nil
	}
	return held(ctx, err)
}

// held returns the error of a call that was not sent. err may be the cause of the end of ctx, which says
// nothing of the code.
func held(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.As(err, new(*client.WaitError)) {
		return ctx.Err()
	}
	return err
}

type unary func() Answer

func (u unary) send(r *http.Request) (*http.Response, error) {
	a := u()
	if a.isNone() {
		return nil, errNoAnswer
	}
	return a.response(r, http.NoBody), nil
}

// isNone reports whether the server has said nothing: the client has ended the call, or there is no
// connection. All that a server sends has fields.
func (a *Answer) isNone() bool { return a.Code != 0 && a.Retry == 0 && len(a.Fields) == 0 }

var errNoAnswer = errors.New("client: the server has said nothing")

// Stream is a stream under way. Its methods are safe for concurrent use.
type Stream struct {
	open     func(*Stream) error
	opened   chan outcome
	answer   chan Answer
	ended    chan struct{}
	answered sync.Once
	over     sync.Once
}

// outcome is how a function has ended on another goroutine.
type outcome struct {
	err      error
	panicked any
	exited   bool // the goroutine, by runtime.Goexit
}

// try calls f and passes on how it ends.
func try(f func() error, done func(outcome)) {
	o := outcome{exited: true}
	defer func() {
		if o.exited {
			o.panicked = recover()
			o.exited = o.panicked == nil
		}
		done(o)
	}()
	o.err = f()
	o.exited = false
}

// result has a panic happen on the goroutine of the caller.
func (o outcome) result() error {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.exited:
		runtime.Goexit()
	}
	return o.err
}

// Stream begins a stream by open, once limits allow it. A stream is not repeated. It returns an error of
// open, or one as Do does. Whoever has a Stream calls Answer and End, or ends ctx.
func (c *Client) Stream(ctx context.Context, call Call, open func(*Stream) error) (*Stream, error) {
	s := &Stream{open: open, opened: make(chan outcome, 1), answer: make(chan Answer, 1), ended: make(chan struct{})}
	over := make(chan outcome, 1) // what comes after open has nobody to tell
	go try(func() error {
		response, err := c.transport.RoundTrip(call.request(ctx, once{}, s))
		if err != nil {
			return held(ctx, err)
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
		}
		return response.Body.Close()
	}, func(o outcome) { over <- o })
	select {
	case o := <-s.opened:
		return s, o.result()
	case failed := <-over:
		select {
		case o := <-s.opened: // and ended at once
			return s, o.result()
		default:
			return nil, failed.result()
		}
	}
}

// once is the body of what cannot be sent again.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }
func (once) Close() error             { return nil }

func (s *Stream) send(r *http.Request) (*http.Response, error) {
	err := errNoAnswer // if open panics
	try(func() error { return s.open(s) }, func(o outcome) {
		if o.panicked == nil {
			err = o.err
		}
		s.opened <- o
	})
	if err != nil {
		return nil, err
	}
	silent := time.NewTimer(silence)
	defer silent.Stop()
	select {
	case a := <-s.answer:
		if a.isNone() {
			return nil, errNoAnswer
		}
		return a.response(r, goesOn{}), nil
	case <-silent.C:
		return new(Answer).response(r, goesOn{}), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// silence is how long a stream may say nothing before it counts as allowed. A server that has nothing to
// send sends no header either: the stream would count for ever as one that is yet to be decided, and less
// would seem to be left than there is. What it says of limits later is not read.
const silence = 10 * time.Second

// goesOn is the body of a stream under way.
type goesOn struct{ once }

// Answer notes what the server has said at the beginning of the stream, or at its end if that comes first.
// The first call counts.
func (s *Stream) Answer(a func() Answer) { s.answered.Do(func() { s.answer <- a() }) }

// End notes the end of the stream.
func (s *Stream) End() { s.over.Do(func() { close(s.ended) }) }
