package gate

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/watch"
	"github.com/weir-go/weir/limits"
)

// Caller is the framework's side of a remote procedure call in [Gate.ServeCall].
type Caller interface {
	// Fields returns the header to write the fields into. It has those of outer limiters if the
	// framework knows them. It is called once, before Go or Refuse.
	Fields() http.Header

	// Go calls the handler with the context that WithContext and Attach have set. It returns the
	// status of the handler's answer, as [StatusOfCode] does, and the handler's error.
	Go() (status int, err error)

	// Refuse returns the error to answer with instead of the handler.
	Refuse(*Refusal) error
}

// Refusal says why a call was refused.
type Refusal struct {
	// Status is the status of an HTTP answer, 429 or 503, or 0 if the context has ended.
	Status  int
	Err     error         // the context's, if Status is 0
	Detail  string        // the detail of a problem document
	Wait    time.Duration // until the call may be repeated; 0: no wait helps
	TooLong bool          // Wait is above headers.Options.MaxRetryAfter
	Outcome core.Outcome

	violated []string
}

// Pushback returns the field grpc-retry-pushback-ms for a call with context ctx: see
// [answer.Pushback].
func (r *Refusal) Pushback(ctx context.Context) string {
	return answer.Pushback(r.Wait, answer.TimeLeft(ctx), r.TooLong)
}

// Violated returns the names of the rules that denied and that clients may know.
func (r *Refusal) Violated() (names []string) {
	if r.Status != http.StatusTooManyRequests || r.violated == nil {
		return nil
	}
	for i := range r.Outcome.Len() {
		if d := r.Outcome.At(i); isViolated(d) {
			names = append(names, d.Rule())
		}
	}
	return names
}

// NoWaitHelps reports whether the program answers the call with a code that says that a retry is
// useless: the call could not be decided, and the code blames the call, as the code for a missing
// token does.
func (r *Refusal) NoWaitHelps(code uint32) bool {
	status := StatusOfCode(code)
	return r.Outcome.Verdict() == core.Unavailable && http.StatusBadRequest <= status &&
		status <= http.StatusNotFound
}

// ServeCall is [Gate.Serve] for a remote procedure call with context ctx. It ignores SkipPreflight,
// Denied, Committed and Answered of [Config].
func (g *Gate[R]) ServeCall(ctx context.Context, request R, caller Caller) error {
	var o core.Outcome
	ends := g.engine.DecideInto(ctx, request, &o)
	g.undecided.note(&o)
	return g.ServeDecided(ctx, request, &o, ends, caller)
}

// ServeDecided is ServeCall for a call that [Gate.DecideCall] decided.
func (g *Gate[R]) ServeDecided(ctx context.Context, request R, o *core.Outcome, ends bool,
	caller Caller) (err error) {
	if ends {
		return g.callToEnd(ctx, request, o, caller)
	}
	if refusal := g.admitCall(ctx, request, o, caller); refusal != nil {
		return caller.Refuse(refusal)
	}
	_, err = caller.Go()
	return err
}

// RefuseDecided returns the refusal of the call with outcome o, or nil if the call may go on. It
// writes the fields of a refusal into h. It does not wait in a queue.
func (g *Gate[R]) RefuseDecided(h http.Header, o *core.Outcome) *Refusal {
	if o.Verdict() == core.Abandoned {
		return &Refusal{Err: o.Err(), Outcome: *o}
	}
	if o.Allowed() {
		return nil
	}
	a := g.answering(o)
	a.fields.Write(h, o)
	return g.refuse(h, o, a)
}

// callToEnd is ServeCall for a call that is allowed and has an end. The call ends when callToEnd
// returns or panics.
func (g *Gate[R]) callToEnd(ctx context.Context, request R, o *core.Outcome,
	caller Caller) (err error) {
	result := core.Result{Panicked: true}
	defer func() {
		result.Left = ctx.Err() != nil
		if result.Left || result.Panicked {
			result.Status = 0 // the client does not see it
		}
		o.End(result)
	}()
	if g.withContext != nil {
		request = g.withContext(request, withEnd(ctx, o, g, nil))
	}
	if refusal := g.admitCall(ctx, request, o, caller); refusal != nil {
		result.Status = refusal.Status
		err = caller.Refuse(refusal)
	} else {
		result.Status, err = caller.Go()
	}
	result.Panicked = false
	return err
}

// admitCall waits for the turn of the call if a limit is a queue, and writes the fields. It returns
// the refusal, or nil if the call may go on.
func (g *Gate[R]) admitCall(ctx context.Context, request R, o *core.Outcome,
	caller Caller) *Refusal {
	left := g.await(ctx, o)
	if g.attach != nil {
		g.attach(request, *o)
	}
	if left || !o.Allowed() {
		watch.MarkOwnCall(ctx)
	}
	if left {
		return &Refusal{Err: ctx.Err(), Outcome: *o}
	}
	if o.Verdict() == core.Abandoned {
		return &Refusal{Err: o.Err(), Outcome: *o}
	}
	h, a := caller.Fields(), g.answering(o)
	a.fields.Write(h, o)
	if o.Allowed() {
		return nil
	}
	return g.refuse(h, o, a)
}

// refuse returns the refusal of o, whose fields are in h.
func (g *Gate[R]) refuse(h http.Header, o *core.Outcome, a *answering) *Refusal {
	retry, status := told(h, o), o.Status()
	return &Refusal{
		Status: status, Detail: string(appendDetail(nil, retry, o, status)), Wait: g.wait(retry, o),
		TooLong: headers.TooLong(h), Outcome: *o, violated: a.violated,
	}
}

// wait returns the Wait of a refusal: to the microsecond, or that of Retry-After if the header
// options may have changed it.
func (g *Gate[R]) wait(retry string, o *core.Outcome) time.Duration {
	if g.options.Jitter == 0 && g.options.RetryAfter == headers.LeastWait && !g.options.CapPace &&
		g.options.Custom == nil {
		switch wait := o.Turn(); {
		case wait == limits.Never:
			return 0
		case wait > 0: // it is 0 if the queue is full
			return wait
		}
	}
	return answer.Seconds(retry)
}

// statuses has the HTTP status of each code of gRPC and Connect, by google/rpc/code.proto.
var statuses = [...]int{
	200, 499, 500, 400, 504, // ok, canceled, unknown, invalid argument, deadline exceeded
	// not found, already exists, permission denied, resource exhausted, failed precondition
	404, 409, 403, 429, 400,
	// aborted, out of range, unimplemented, internal, unavailable, data loss, unauthenticated
	409, 400, 501, 500, 503, 500, 401,
}

// IsProbe reports whether a full method is one by which clients of gRPC and Connect find out whether
// a server works. See nethttp.CallConfigOf.
func IsProbe(fullMethod string) bool {
	method, ok := strings.CutPrefix(fullMethod, "/grpc.health.v1.Health/")
	return ok && (method == "Check" || method == "Watch")
}

// StatusOfCode returns the HTTP status of a code of gRPC or Connect, by google/rpc/code.proto.
func StatusOfCode(code uint32) int {
	if int64(code) < int64(len(statuses)) {
		return statuses[code]
	}
	return http.StatusInternalServerError
}

// DecideCall is [Gate.Decide] for a remote procedure call. ends reports whether the call has an
// end.
func (g *Gate[R]) DecideCall(ctx context.Context, request R) (o core.Outcome, ends bool) {
	ends = g.engine.DecideInto(ctx, request, &o)
	g.undecided.note(&o)
	return o, ends
}
