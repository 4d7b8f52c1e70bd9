package grpcmw

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
)

// Tap returns the handle for grpc.InTapHandle that decides each call before its message is read, by
// peer, metadata and method. It counts calls that cannot be decoded, which interceptors never see:
// calls with garbage, an unknown encoding, or a message above grpc.MaxRecvMsgSize. Install all
// three:
//
//	var server *grpc.Server
//	server = grpc.NewServer(
//		grpc.InTapHandle(limiter.Tap(func() *grpc.Server { return server })),
//		grpc.ChainUnaryInterceptor(limiter.Unary()),
//		grpc.ChainStreamInterceptor(limiter.Stream()),
//	)
//
// The handle calls the function once, at the first call, to find the methods of the server. The
// interceptors do not decide again. They send the fields of an allowed call, let it wait in a
// queue, and end it. A call that does not reach them ends with its stream, with the zero
// [core.Result].
//
// A denied call has the same code, message and details as without Tap; [Client] reads the wait there.
// But gRPC sends no metadata with what Tap refuses: no fields, and no grpc-retry-pushback-ms, without
// which a retry policy repeats a call at once. So up to 64 denied calls a second, and at once, are
// left to the interceptors, which read the message of a unary call. Tap refuses the rest of a flood,
// and calls of methods that the server does not have.
//
//   - Rules see no message, and no value that an interceptor puts into the context. Put rules that
//     need them into a second limiter, without Tap. Calls that [Shed] sheds are counted.
//   - A connection waits for each decision about its calls: a microsecond in memory, a round trip
//     with Redis. Decide in memory if a proxy sends the calls of all clients over one connection.
//   - gRPC keeps a timer for each call that Tap refuses until its deadline, however late. Tap
//     therefore refuses no further call while 16,384 such calls (7 MB) have deadlines in the future.
//     The interceptors then refuse calls, after their messages were read: bound messages by
//     grpc.MaxRecvMsgSize. Without both interceptors the number of timers has no bound.
//   - A server has one InTapHandle. If yours calls this one, it must not refuse the call
//     afterwards: the call would hold its units forever.
//   - grpc.Server.ServeHTTP does not call the handle. There the interceptors decide.
//
// Tap panics if server is nil, or if l is nil or was not made by [New].
func (l *Limiter) Tap(server func() *grpc.Server) tap.ServerInHandle {
	l.check("Tap")
	if server == nil {
		panic("grpcmw: Limiter.Tap: the function is nil: give one that returns the server")
	}
	l.tap.Store(true)
	methods := sync.OnceValue(func() map[string]bool { return methodsOf(server()) })
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if l.passes(info.FullMethodName) {
			return ctx, nil
		}
		c := call{Call: Call{Context: ctx, FullMethod: info.FullMethodName}, limiter: l}
		streams, registered := methods()[info.FullMethodName]
		if c.unregistered = !registered; registered && !streams {
			c.Message = unread{}
		}
		return l.decideTap(&c)
	}
}

// unread is the Message of a unary call before its message is read.
type unread struct{}

// methodsOf maps the full names of a server's methods to whether they stream.
func methodsOf(server *grpc.Server) map[string]bool {
	if server == nil {
		panic("grpcmw: Limiter.Tap: the function returned no server: return the one that has " +
			"the handle")
	}
	streams := make(map[string]bool)
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			streams["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
		}
	}
	return streams
}

// decideTap decides c. It returns the error of a call that Tap refuses, otherwise a context with
// the outcome for the interceptors.
func (l *Limiter) decideTap(c *call) (context.Context, error) {
	ctx, d := c.Context, new(decided)
	d.outcome, d.ends = l.gate.DecideCall(ctx, &c.Call)
	refusal := l.gate.RefuseDecided(c.Fields(), &d.outcome)
	c.dropFields()
	if refusal != nil && !l.refusesLater(c) && l.refusesNow(ctx) {
		return ctx, statusError(c.refuse(refusal))
	}
	if d.ends {
		context.AfterFunc(ctx, func() { // gRPC cancels ctx when the stream ends
			if d.claim() {
				d.outcome.End(core.Result{})
			}
		})
	}
	return context.WithValue(ctx, decidedKey{l}, d), nil
}

// refusesLater reports whether an interceptor refuses c, with the metadata that Tap cannot send.
func (l *Limiter) refusesLater(c *call) bool {
	interceptor := &l.unary
	if c.Message == nil {
		interceptor = &l.stream
	}
	if c.unregistered || !interceptor.Load() || !l.later.take() {
		return false
	}
	context.AfterFunc(c.Context, l.later.end) // gRPC cancels it when the stream ends
	return true
}

// maxLater is the number of calls that interceptors refuse instead of Tap in a second, and at once.
// The message of a unary call is read for it, so this bounds the work and the memory.
var maxLater int64 = 64

// later counts what maxLater bounds.
type later struct {
	began time.Time
	out   atomic.Int64 // at this moment
	full  atomic.Int64 // when all calls of a second fit again, since began
}

// take reports whether one more fits, and counts it.
func (p *later) take() bool {
	if p.out.Add(1) > maxLater {
		p.out.Add(-1)
		return false
	}
	now := int64(time.Since(p.began))
	for {
		full := p.full.Load()
		next := max(full, now) + int64(time.Second)/maxLater
		if next-now > int64(time.Second) {
			p.out.Add(-1)
			return false
		}
		if p.full.CompareAndSwap(full, next) {
			return true
		}
	}
}

// end notes that such a call has ended.
func (p *later) end() { p.out.Add(-1) }

// maxRefused is the number of refused calls whose deadlines may be in the future: gRPC does not
// stop their timers (operateHeaders in http2_server.go of grpc-go 1.83).
var maxRefused int64 = 16_384

// refusesNow reports whether Tap, not the interceptors, refuses a call with context ctx.
func (l *Limiter) refusesNow(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	if !ok || !l.unary.Load() || !l.stream.Load() {
		return true
	}
	if l.refused.Add(1) > maxRefused {
		l.refused.Add(-1)
		return false
	}
	// context.AfterFunc would keep ctx, with the client's metadata, until then.
	time.AfterFunc(time.Until(deadline), func() { l.refused.Add(-1) })
	return true
}

// decided is the decision of Tap on a call.
type decided struct {
	outcome core.Outcome
	ends    bool // the call has something to end
	claimed atomic.Bool
}

// claim returns true once. The caller that gets true ends the outcome.
func (d *decided) claim() bool { return d.claimed.CompareAndSwap(false, true) }

// decidedKey is the key of a [decided] in the context of a call.
type decidedKey struct{ by *Limiter }

// serve serves a call. It decides the call if Tap has not.
func (l *Limiter) serve(ctx context.Context, c *Call, caller gate.Caller) error {
	if !l.tap.Load() {
		return l.gate.ServeCall(ctx, c, caller)
	}
	d, ok := ctx.Value(decidedKey{l}).(*decided)
	switch {
	case ok && d.claim():
		return l.gate.ServeDecided(ctx, c, &d.outcome, d.ends, caller)
	case ok && ctx.Err() != nil: // the call ended with its stream
		return status.FromContextError(ctx.Err()).Err()
	}
	return l.gate.ServeCall(ctx, c, caller)
}

// statusError returns err with the status that gRPC gives the error of a handler. gRPC would give
// codes.PermissionDenied to an error of a tap without a status.
func statusError(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}
