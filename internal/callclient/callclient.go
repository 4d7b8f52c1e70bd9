// Package callclient keeps remote procedure calls to the limits of servers, by a [client.Transport], which
// is made for HTTP.
package callclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
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

// response returns a in the form of HTTP.
func (a *Answer) response(r *http.Request, body io.ReadCloser) *http.Response {
	h, status := a.Fields, gate.StatusOfCode(a.Code)
	if h == nil {
		h = make(http.Header)
	}
	if a.Retry > 0 {
		h.Set("Retry-After", strconv.FormatFloat(a.Retry.Seconds(), 'f', 9, 64))
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

// Do makes a call by attempt, as often as limits and options allow. It returns nil once an attempt has an
// answer that goes back to the caller, which is that of the last attempt. Otherwise nothing was sent, or
// nothing since a denial, and the error is a [*client.WaitError] or that of the context.
func (c *Client) Do(ctx context.Context, call Call, attempt func() Answer) error {
	response, err := c.transport.RoundTrip(call.request(ctx, nil, unary(attempt)))
	if err == nil {
		response.Body.Close()
	}
	return err
}

type unary func() Answer

func (u unary) send(r *http.Request) (*http.Response, error) {
	a := u()
	return a.response(r, http.NoBody), nil
}

// Stream is a stream under way. Its methods are safe for concurrent use.
type Stream struct {
	open     func() error
	opened   chan opened
	answer   chan Answer
	ended    chan struct{}
	answered sync.Once
	over     sync.Once
}

// opened is how open has ended.
type opened struct {
	err      error
	panicked any
}

// Stream begins a stream by open, once limits allow it. A stream is not repeated. It returns an error of
// open, or one as Do does. Whoever has a Stream calls Answer and End, or ends ctx.
func (c *Client) Stream(ctx context.Context, call Call, open func() error) (*Stream, error) {
	s := &Stream{open: open, opened: make(chan opened, 1), answer: make(chan Answer, 1), ended: make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		response, err := c.transport.RoundTrip(call.request(ctx, once{}, s))
		if err != nil {
			failed <- err
			return
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
		}
		response.Body.Close()
	}()
	select {
	case o := <-s.opened:
		return s, o.result()
	case err := <-failed:
		select {
		case o := <-s.opened: // and ended at once
			return s, o.result()
		default:
			return nil, err
		}
	}
}

// result has a panic of open happen on the goroutine of the caller.
func (o opened) result() error {
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// once is the body of what cannot be sent again.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }
func (once) Close() error             { return nil }

func (s *Stream) send(r *http.Request) (*http.Response, error) {
	if err := s.tryOpen(); err != nil {
		return nil, err
	}
	select {
	case a := <-s.answer:
		return a.response(r, goesOn{}), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// tryOpen calls open and notes how it has ended.
func (s *Stream) tryOpen() (err error) {
	defer func() {
		v := recover()
		if v != nil {
			err = errPanicked
		}
		s.opened <- opened{err, v}
	}()
	return s.open()
}

var errPanicked = errors.New("client: the call has panicked")

// goesOn is the body of a stream under way.
type goesOn struct{ once }

// Answer notes what the server has said at the beginning of the stream, or at its end if that comes first.
// The first call counts.
func (s *Stream) Answer(a func() Answer) { s.answered.Do(func() { s.answer <- a() }) }

// End notes the end of the stream.
func (s *Stream) End() { s.over.Do(func() { close(s.ended) }) }
