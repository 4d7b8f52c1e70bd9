package core

import (
	"context"

	"github.com/weir-go/weir/limits"
)

// Observer is called with the decisions and ends of a [Limiter]. Package stats has an Observer that
// counts; [ObserverFuncs] is one made of functions. The methods must be quick and safe for
// concurrent use.
type Observer interface {
	// ObserveDecision is called once for every call of Decide, on its goroutine and before it
	// returns, even if the outcome is [Abandoned]. request is the R of the limiter, such as an
	// *http.Request.
	//
	// A request whose outcome is allowed here may still be refused: one with a Delay waits in a
	// queue ([Limiter.Wait]), which may be full ([ErrQueueFull]), or whose wait its context may
	// end. No method of Observer is called then. State.QueueFull and State.QueueLeft count such
	// requests.
	ObserveDecision(ctx context.Context, request any, o Outcome)

	// ObserveEnd is called once for every rule with an end, after the end of a request that the
	// rule allowed. It is called on the goroutine that calls [Outcome.End], or on another one if
	// the backend is outside this process. A panic in it is dropped.
	ObserveEnd(limits.Settlement)

	// ObserveLimiter is called by [New] with the limiter, so that the Observer can read its State.
	// An adapter passes its own limiter.
	ObserveLimiter(limiter interface{ State() State })
}

// ObserverFuncs is an [Observer] made of functions. Each field may be nil. R is the request type of
// the limiter. OnDecision is not called for requests of another type. A request that OnDecision
// sees allowed may still be refused by a full queue: see [Observer].
type ObserverFuncs[R any] struct {
	OnDecision func(context.Context, R, Outcome) // called by ObserveDecision
	OnEnd      func(limits.Settlement)           // called by ObserveEnd
	Next       Observer                          // called after the functions, with everything
}

// ObserveDecision implements [Observer].
func (f ObserverFuncs[R]) ObserveDecision(ctx context.Context, request any, o Outcome) {
	if r, ok := request.(R); ok && f.OnDecision != nil {
		f.OnDecision(ctx, r, o)
	}
	if f.Next != nil {
		f.Next.ObserveDecision(ctx, request, o)
	}
}

// ObserveEnd implements [Observer].
func (f ObserverFuncs[R]) ObserveEnd(s limits.Settlement) {
	if f.OnEnd != nil {
		f.OnEnd(s)
	}
	if f.Next != nil {
		f.Next.ObserveEnd(s)
	}
}

// ObserveLimiter implements [Observer].
func (f ObserverFuncs[R]) ObserveLimiter(limiter interface{ State() State }) {
	if f.Next != nil {
		f.Next.ObserveLimiter(limiter)
	}
}

// preparer is an Observer that prepares for rules before they come into force, and may refuse them.
// Adapters have one, to prepare header fields.
type preparer[R any] interface {
	// Prepare is called with the rules that will come into force, overrides included, and with
	// their [Outcome.Revision].
	Prepare(revision int32, rules []Rule[R]) error

	// Observed returns the Observer for decisions and ends; nil: none.
	Observed() Observer
}

// prepares returns observer as a preparer, or nil, and the Observer for decisions and ends.
func prepares[R any](observer Observer) (preparer[R], Observer) {
	if p, ok := observer.(preparer[R]); ok {
		return p, p.Observed()
	}
	return nil, observer
}
