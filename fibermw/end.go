package fibermw

import (
	"context"
	"errors"
	"net/http"
	"runtime"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// Detach detaches the end of the request with context c from its handler: the caller must call end
// when the request is over. It is [nethttp.Detach] for this package's requests. end does not use c.
func Detach(c fiber.Ctx) (end func(core.Result), ok bool) { return nethttp.Detach(c.Context()) }

// Spend adds n units to the final cost of the request with context c under the named rule, and
// reports whether there was such a rule. Functions that have only c.Context() may call
// [nethttp.Spend]. So does the writer of a stream, which runs after the handler: call c.Context
// before it.
func Spend(c fiber.Ctx, rule string, n int64) bool { return nethttp.Spend(c.Context(), rule, n) }

// withContext implements [gate.Config].WithContext. [nethttp.Spend] finds the end in c, too, and in
// the context that handlers of net/http get.
func withContext(c fiber.Ctx, ctx context.Context) fiber.Ctx {
	c.SetContext(ctx)
	c.RequestCtx().SetUserValue(gate.EndKey{}, ctx.Value(gate.EndKey{}))
	prepare(c)
	return c
}

// onStatus implements [gate.Config].OnStatus.
func onStatus(w http.ResponseWriter, _ fiber.Ctx, f func(int)) http.ResponseWriter {
	w.(*exchange).onStatus = f
	return w
}

// answered implements [gate.Config].Answered. An answer counts as not written, because outer
// middleware and the ErrorHandler may still replace it.
func answered(c fiber.Ctx, err error) (status int, bytes int64, written bool) {
	if r := timedOut(c); r != nil {
		return r.StatusCode(), int64(len(r.Body())), true
	}
	if err != nil {
		return statusOf(err), 0, false
	}
	r := c.Response()
	if r.IsBodyStream() {
		return r.StatusCode(), max(0, int64(r.Header.ContentLength())), false
	}
	status, bytes = r.StatusCode(), int64(len(r.Body()))
	if status == http.StatusOK && bytes == 0 && !c.Matched() {
		// Fiber calls middleware for requests that it cannot read, too, before their ErrorHandler.
		status = 0
	}
	return status, bytes, false
}

// timedOut returns the answer of a time-out around or inside the limiter; nil: there was none.
// After a time-out another goroutine uses c, and nothing else of it may be read. Fiber abandons c
// once the answer is made, so IsAbandoned, which is atomic, comes first.
func timedOut(c fiber.Ctx) *fasthttp.Response {
	if !c.IsAbandoned() {
		return nil
	}
	return c.RequestCtx().LastTimeoutErrorResponse()
}

// statusOf returns the status with which Fiber answers err by default, or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		return e.Code
	}
	return 0
}

// sending implements [watch.Sending].
type sending struct{}

// Pending reports true for streams and connections that are taken over. It also reports true for
// errors of which something depends on the status, unless a program runs the app without the server
// of fasthttp, which alone says when an answer has been sent.
func (sending) Pending(c fiber.Ctx, err error, watched bool) bool {
	ctx := c.RequestCtx()
	if timedOut(c) != nil || ctx.ConnRequestNum() == 0 {
		return false
	}
	return err != nil && watched || err == nil && (c.Response().IsBodyStream() || ctx.Hijacked())
}

// OnSent calls f when fasthttp has sent the answer, or has dropped the request.
func (sending) OnSent(c fiber.Ctx, f func(status int, bytes int64)) {
	prepare(c) // again, if a handler has reset the values of the request
	ctx := c.RequestCtx()
	answer := ctx.UserValue(answerKey{}).(*pendingAnswer)
	answer.hijacked = ctx.Hijacked()
	answer.add(f)
}

type answerKey struct{}

// pendingAnswer is a value of a request, which fasthttp closes when it has sent the answer.
// fasthttp drops some requests without closing their values: after a timeout, and if a connection
// is closed before its hijack handler runs. The garbage collector ends these.
type pendingAnswer struct {
	ctx     *fasthttp.RequestCtx
	waiting *waiting // nil: nothing waits for the answer
	dropped runtime.Cleanup

	hijacked bool
}

// prepare lets OnSent be called later, when the writer of a stream may read the values of c.
func prepare(c fiber.Ctx) {
	if ctx := c.RequestCtx(); ctx.UserValue(answerKey{}) == nil {
		ctx.SetUserValue(answerKey{}, &pendingAnswer{ctx: ctx})
	}
}

func (a *pendingAnswer) add(f func(status int, bytes int64)) {
	if a.waiting == nil {
		a.waiting = new(waiting)
		a.dropped = runtime.AddCleanup(a, func(w *waiting) { w.end(0, 0) }, a.waiting)
	}
	a.waiting.fs = append(a.waiting.fs, f)
}

// Close implements io.Closer. The answer is still there.
func (a *pendingAnswer) Close() error {
	if a.waiting != nil {
		a.dropped.Stop()
		r := &a.ctx.Response
		status, length := r.StatusCode(), int64(r.Header.ContentLength())
		if a.hijacked { // the handler may have written the status to the connection
			status, length = http.StatusSwitchingProtocols, 0
		}
		a.waiting.end(status, max(0, length)) // it is negative if a stream had none
	}
	return nil
}

// waiting is what waits for an answer to be sent. It must not lead to its pendingAnswer.
type waiting struct {
	fs []func(status int, bytes int64)
}

func (w *waiting) end(status int, bytes int64) {
	for _, f := range w.fs {
		f(status, bytes)
	}
	w.fs = nil
}
