package gate

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/limits"
)

// Caller is the framework's side of a remote procedure call that [Gate.ServeCall] decides.
type Caller interface {
	// Fields returns the header that the fields are written into, with those of limiters
	// outside, if the framework knows them. It is called once, before Go or Refuse.
	Fields() http.Header

	// Go calls the handler, with the context that WithContext and Attach have set. It
	// returns the status of its answer, as [StatusOfCode] does, and its error.
	Go() (status int, err error)

	// Refuse returns the error that a call gets instead of the handler's answer.
	Refuse(*Refusal) error
}

// Refusal says why a call may not go on.
type Refusal struct {
	// Status is that of an HTTP answer: 429, 503, or 0 if the context has ended.
	Status  int
	Err     error         // of the context, if Status is 0
	Detail  string        // the explanation, as problem documents have it
	Wait    time.Duration // after which the call may be repeated; 0: no wait helps
	Outcome core.Outcome

	violated []string
}

// Violated returns the names of the rules that denied, as far as clients may know them.
func (r *Refusal) Violated() (names []string) {
	if r.Status != http.StatusTooManyRequests || r.violated == nil {
		return nil
	}
	for i := range r.Outcome.Len() {
		if d := r.Outcome.At(i); isViolated(d, r.violated) {
			names = append(names, d.Rule())
		}
	}
	return names
}

// NoWaitHelps reports whether an answer of the program's own with this code says that there is no use in trying again:
// the call could not be decided, and the code says that it is to blame, as that for a missing token does.
func (r *Refusal) NoWaitHelps(code uint32) bool {
	status := StatusOfCode(code)
	return r.Outcome.Verdict() == core.Unavailable && http.StatusBadRequest <= status && status <= http.StatusNotFound
}

// ServeCall is [Gate.Serve] for a remote procedure call with context ctx. SkipPreflight, Denied,
// Committed and Answered of [Config] play no part in it.
func (g *Gate[R]) ServeCall(ctx context.Context, request R, caller Caller) error {
	var o core.Outcome
	ends := g.engine.DecideInto(ctx, request, &o)
	g.undecided.note(&o)
	return g.ServeDecided(ctx, request, &o, ends, caller)
}

// ServeDecided is ServeCall for a call that [Gate.DecideCall] has decided.
func (g *Gate[R]) ServeDecided(ctx context.Context, request R, o *core.Outcome, ends bool, caller Caller) (err error) {
	if ends {
		return g.callToEnd(ctx, request, o, caller)
	}
	if refusal := g.admitCall(ctx, request, o, caller); refusal != nil {
		return caller.Refuse(refusal)
	}
	_, err = caller.Go()
	return err
}

// RefuseDecided returns why the call with outcome o may not go on, nil if it may. It writes the fields
// into h, and does not wait for the turn of the call if a limit is a queue.
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

// callToEnd is ServeCall for a call that is allowed and has an end. It ends when callToEnd does,
// however that is.
func (g *Gate[R]) callToEnd(ctx context.Context, request R, o *core.Outcome, caller Caller) (err error) {
	result := core.Result{Panicked: true}
	defer func() {
		result.Left = ctx.Err() != nil
		if result.Left || result.Panicked {
			result.Status = 0 // the client does not see it
		}
		o.End(result)
	}()
	if g.withContext != nil {
		request = g.withContext(request, withEnd(ctx, o))
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

// admitCall writes the fields, waits for the turn of the call if a limit is a queue, and returns
// why it may not go on; nil if it may.
func (g *Gate[R]) admitCall(ctx context.Context, request R, o *core.Outcome, caller Caller) *Refusal {
	left := g.await(ctx, o)
	if g.attach != nil {
		g.attach(request, *o)
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

// refuse returns why o, whose fields are in h, may not go on.
func (g *Gate[R]) refuse(h http.Header, o *core.Outcome, a *answering) *Refusal {
	retry, status := answer.RetryAfter(h), o.Status()
	return &Refusal{
		Status: status, Detail: string(appendDetail(nil, retry, o, status)), Wait: g.wait(retry, o),
		Outcome: *o, violated: a.violated,
	}
}

// wait returns the wait that a refusal says: to the microsecond, unless the options of the fields
// may have changed that of Retry-After.
func (g *Gate[R]) wait(retry string, o *core.Outcome) time.Duration {
	if g.options.Jitter == 0 && g.options.RetryAfter == headers.LeastWait && !g.options.CapPace && g.options.Custom == nil {
		switch wait := o.RetryAfter(); {
		case wait == limits.Never:
			return 0
		case wait > 0: // 0 if the queue is full
			return wait
		}
	}
	seconds, err := strconv.ParseInt(retry, 10, 32) // a value of Custom that is no number says nothing
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// statuses are those that google/rpc/code.proto gives to the codes of gRPC and Connect.
var statuses = [...]int{
	200, 499, 500, 400, 504, // ok, canceled, unknown, invalid argument, deadline exceeded
	404, 409, 403, 429, 400, // not found, already exists, permission denied, resource exhausted, failed precondition
	409, 400, 501, 500, 503, 500, 401, // aborted, out of range, unimplemented, internal, unavailable, data loss, unauthenticated
}

// StatusOfCode returns the HTTP status of a code of gRPC or Connect, by google/rpc/code.proto.
func StatusOfCode(code uint32) int {
	if int64(code) < int64(len(statuses)) {
		return statuses[code]
	}
	return http.StatusInternalServerError
}

// DecideCall is [Gate.Decide] for a remote procedure call. It reports whether the call has something to end.
func (g *Gate[R]) DecideCall(ctx context.Context, request R) (o core.Outcome, ends bool) {
	ends = g.engine.DecideInto(ctx, request, &o)
	g.undecided.note(&o)
	return o, ends
}

// ExplainCall is [Gate.Explain] for a remote procedure call.
func (g *Gate[R]) ExplainCall(ctx context.Context, request R) core.Outcome {
	return g.engine.Explain(ctx, request)
}
