package connect2mw

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/http/callclient"
)

// Client returns the interceptor of a client that follows the limits of servers, as a
// [client.Transport] does. It reads RetryInfo of connect.CodeResourceExhausted and
// connect.CodeUnavailable, and the fields of limits in header and trailer. After a denial it holds
// back all calls of the same bucket. It spreads calls if few units are left. It never sends a call
// earlier than the server allows. If a call would have to wait longer than [client.Options].MaxWait
// or its deadline, it ends with connect.CodeResourceExhausted and a [*client.WaitError], which
// counts as the server's answer: a handler that returns it does not deny its own client.
//
// A unary call that is denied with connect.CodeResourceExhausted is repeated, within the budget of
// a Transport. One that ends with connect.CodeUnavailable is repeated if the server sent a wait,
// and its procedure is idempotent by its schema or it has a header Idempotency-Key. Interceptors
// inside see each attempt, with the header that those outside and the caller have set. Streams are
// never repeated: the caller has to do so.
//
// Functions in options see a call as a POST for its procedure, or a GET if that is idempotent, with
// its header. The default bucket is the host and a digest of Authorization. A panic of
// [client.Options].Observe for the answer to a stream is dropped. A stream without an answer for
// ten seconds counts as allowed. The error reports every mistake in o, including a Base.
//
// Do not use a [client.Transport] below the client as well. It understands unary calls of the
// Connect protocol, but no other protocols and no streams.
func Client(o client.Options) (connect.ClientInterceptor, error) {
	paced, err := callclient.New(o)
	if err != nil {
		return nil, err
	}
	return func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			c := &calling{client: paced, spec: spec, next: next}
			return c.begin(ctx)
		}
	}, nil
}

// MustClient is [Client] for options that the program sets. It panics if they have a mistake.
func MustClient(o client.Options) connect.ClientInterceptor {
	i, err := Client(o)
	if err != nil {
		panic(err)
	}
	return i
}

// calling is a call of a client.
type calling struct {
	client *callclient.Client
	ctx    context.Context
	spec   connect.Spec
	info   *connect.CallInfo
	next   connect.ClientFunc
	cancel context.CancelFunc // of ctx
}

// begin opens the first stream of c, which sends nothing before its first message. Close of a stream
// that has sent nothing would send a request without a message, unless its context has ended.
func (c *calling) begin(ctx context.Context) (connect.ClientStream, error) {
	var ok bool
	if c.info, ok = connect.CallInfoForClientContext(ctx); !ok { // a test calls the interceptor alone
		ctx, c.info = connect.NewClientContext(ctx)
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	before := fieldsOf(c.info.RequestHeader())
	stream, err := c.next(c.ctx, c.spec)
	if err != nil {
		c.cancel()
		return nil, err
	}
	if c.spec.StreamType != connect.StreamTypeUnary {
		s := &heldStream{ClientStream: stream, calling: c}
		s.waiting, s.stop = context.WithCancel(c.ctx)
		return s, nil
	}
	return &repeated{calling: c, stream: stream, ready: make(chan struct{}),
		restores: changed(before, c.info.RequestHeader())}, nil
}

// changed returns the fields of before that differ in h, with no values if before has none.
func changed(before http.Header, h *connect.Header) http.Header {
	fields := make(http.Header)
	for name, values := range h.All() {
		if !slices.Equal(values, before[name]) {
			fields[name] = before[name]
		}
	}
	for name, values := range before {
		if !h.Has(name) {
			fields[name] = values
		}
	}
	return fields
}

// describe returns the call for functions in options. The transport has set the address by now.
func (c *calling) describe() callclient.Call {
	return callclient.Call{
		Scheme: "http", Target: c.info.PeerAddr, Method: c.spec.Procedure,
		Header:     fieldsOf(c.info.RequestHeader()),
		Idempotent: c.spec.IdempotencyLevel != connect.IdempotencyUnknown,
	}
}

// answer returns the answer with error err, as far as it has arrived.
func (c *calling) answer(err error) callclient.Answer {
	a := callclient.Answer{Fields: fieldsOf(c.info.ResponseHeader())}
	for name, values := range c.info.ResponseTrailer().All() {
		if len(a.Fields[name]) == 0 {
			a.Fields[name] = values
		}
	}
	if err == nil {
		return a
	}
	a.Code = uint32(connect.CodeOf(err))
	if e, ok := errors.AsType[*connect.Error](err); ok {
		for _, detail := range e.Details() {
			if m, err := connectproto.UnmarshalErrorDetail(detail); err == nil {
				if info, ok := m.(*errdetails.RetryInfo); ok {
					a.Retry = max(0, info.GetRetryDelay().AsDuration())
				}
			}
		}
	}
	return a
}

// heldBack returns the error of a call that was held back.
func heldBack(err error) error {
	if wait, ok := errors.AsType[*client.WaitError](err); ok {
		return connect.NewError(connect.CodeResourceExhausted, wait.Error()).WithCause(wait).WithRemote()
	}
	return endedError(err)
}

var errOneMessage = errors.New("connect2mw: a unary call has one message")

// repeated is the stream of a unary call, which waits for its limits and is sent when its answer is
// asked for.
type repeated struct {
	*calling
	isRead   bool
	restores http.Header // undoes what interceptors inside did to the header of the request

	message any
	isSent  bool
	isEnded bool          // nothing more is sent
	ready   chan struct{} // closed when message is complete

	stream connect.ClientStream // of the latest attempt; Receive's while that runs

	mu        sync.Mutex
	closed    bool // guarded by mu
	receiving bool // guarded by mu
}

func (r *repeated) SendHeaders() error { return nil }

func (r *repeated) Send(m any) error {
	if r.isEnded {
		return io.EOF
	}
	if r.isSent {
		return errOneMessage
	}
	r.message, r.isSent = m, true
	close(r.ready)
	return nil
}

func (r *repeated) CloseSend() error {
	if !r.isEnded && !r.isSent {
		close(r.ready)
	}
	r.isEnded = true
	return nil
}

func (r *repeated) Receive(m any) error {
	if r.isRead {
		return io.EOF
	}
	r.isRead = true
	r.mu.Lock()
	r.receiving = true
	r.mu.Unlock()
	defer r.received()
	select {
	case <-r.ready: // another goroutine may send
	case <-r.ctx.Done():
		return endedError(r.ctx.Err())
	}
	var err error
	first := true
	held := r.client.Do(r.ctx, r.describe(), func() callclient.Answer {
		if !first {
			if err = r.reopen(); err != nil {
				return r.answer(err)
			}
		}
		first = false
		err = r.attempt(m)
		return r.answer(err)
	})
	if held != nil {
		return heldBack(held)
	}
	return err
}

// attempt sends the message and receives the answer. io.EOF means that the server answered before it
// had all of the message.
func (r *repeated) attempt(m any) error {
	if r.isSent {
		if err := r.stream.Send(r.message); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if err := r.stream.CloseSend(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return r.stream.Receive(m)
}

// reopen opens the stream of the next attempt, and forgets the last one.
func (r *repeated) reopen() error {
	for name, values := range r.restores {
		if r.info.RequestHeader().Delete(name); values != nil {
			r.info.RequestHeader().SetValues(name, values)
		}
	}
	replace(r.info.ResponseHeader(), nil)
	replace(r.info.ResponseTrailer(), nil)
	s, err := r.next(r.ctx, r.spec)
	if err != nil {
		return err
	}
	r.stream.Close()
	r.stream = s
	return nil
}

// received ends Receive, and closes the stream if Close has left that to it.
func (r *repeated) received() {
	r.cancel()
	r.mu.Lock()
	r.receiving = false
	closes := r.closed
	r.mu.Unlock()
	if closes {
		r.stream.Close()
	}
}

// Close ends the call. While Receive sends, the stream must not be closed: Receive does so.
func (r *repeated) Close() error {
	r.cancel()
	r.mu.Lock()
	r.closed = true
	leaves := r.receiving
	r.mu.Unlock()
	if leaves {
		return nil
	}
	return r.stream.Close()
}

// heldStream is a stream that waits for its limits before its first message, when its header is
// complete.
type heldStream struct {
	connect.ClientStream
	*calling

	waiting context.Context // of the wait: ends with the stream, or when it is closed
	stop    context.CancelFunc

	once sync.Once
	of   *callclient.Stream
	held error
}

// begun begins the stream. It returns an error if the stream is held back.
func (s *heldStream) begun() error {
	s.once.Do(func() {
		var err error
		s.of, err = s.client.Stream(s.waiting, s.describe(),
			func(*callclient.Stream) error { return nil })
		if err != nil {
			s.held = heldBack(err)
			s.cancel()
		}
	})
	return s.held
}

func (s *heldStream) SendHeaders() error {
	if err := s.begun(); err != nil {
		return err
	}
	return s.ClientStream.SendHeaders()
}

func (s *heldStream) Send(m any) error {
	if err := s.begun(); err != nil {
		return err
	}
	return s.ClientStream.Send(m)
}

func (s *heldStream) CloseSend() error {
	if s.begun() != nil {
		return nil
	}
	return s.ClientStream.CloseSend()
}

func (s *heldStream) Receive(m any) error {
	if err := s.begun(); err != nil {
		return err
	}
	err := s.ClientStream.Receive(m)
	if s.hasHeader(err) {
		s.of.Answer(func() callclient.Answer {
			if errors.Is(err, io.EOF) {
				return s.answer(nil)
			}
			return s.answer(err)
		})
	}
	if err != nil || s.spec.StreamType == connect.StreamTypeClient { // which gets one message
		s.of.End()
		s.stop()
		if err != nil || s.info.TransportInfo != nil { // a handler within a process may still run
			s.cancel()
		}
	}
	return err
}

// hasHeader reports whether the header of the response can be read after Receive has returned err. A
// transport within a process may write it until the handler ends, even after the client has left.
func (s *heldStream) hasHeader(err error) bool {
	e, ok := errors.AsType[*connect.Error](err)
	return s.info.TransportInfo != nil || errors.Is(err, io.EOF) || ok && e.IsRemote()
}

func (s *heldStream) Close() error {
	s.stop()
	s.once.Do(func() { // nothing was sent or will be sent
		s.held = endedError(context.Canceled)
		s.cancel()
	})
	defer s.cancel()
	err := s.ClientStream.Close()
	if s.of != nil {
		s.of.Answer(func() callclient.Answer { return callclient.Answer{Fields: make(http.Header)} })
		s.of.End()
	}
	return err
}
