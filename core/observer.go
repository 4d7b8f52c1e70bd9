package core

import (
	"context"

	"github.com/weir-go/weir/limits"
)

// Observer is told what a [Limiter] does. Counters of package stats are one, and [ObserverFuncs]
// is one made of functions. Its methods must be quick and safe for concurrent use.
type Observer interface {
	// ObserveDecision is called once for every call of Decide, before it returns, on its
	// goroutine, also if the outcome is [Abandoned]. request is the R of the limiter, such as an
	// *http.Request.
	ObserveDecision(ctx context.Context, request any, o Outcome)

	// ObserveEnd is called once for every rule with an end, after the end of a request that the
	// rule allowed. It is called on the goroutine that calls [Outcome.End], or on one of its own
	// if the backend is outside this process. A panic in it is dropped.
	ObserveEnd(limits.Settlement)

	// ObserveLimiter is called by [New] with the limiter, whose state may be read from then on. An
	// adapter passes its own.
	ObserveLimiter(limiter interface{ State() State })
}

// ObserverFuncs is an [Observer] made of functions. Each field may be nil. R is the request of the
// limiter: of another limiter's requests, OnDecision is told nothing.
type ObserverFuncs[R any] struct {
	OnDecision func(context.Context, R, Outcome) // is ObserveDecision
	OnEnd      func(limits.Settlement)           // is ObserveEnd
	Next       Observer                          // is told everything, after the functions
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

// preparer is an Observer that has to prepare for rules before they come into force, and may
// refuse them. Adapters have one, for what writes header fields.
type preparer[R any] interface {
	// Prepare is called with the rules that come into force, overrides included, and with the
	// [Outcome.Revision] that they are going to have.
	Prepare(revision int32, rules []Rule[R]) error

	// Observed returns the Observer to tell of decisions and ends; nil: none.
	Observed() Observer
}

// prepares returns observer as a preparer, nil if it is another kind, and the Observer to tell.
func prepares[R any](observer Observer) (preparer[R], Observer) {
	if p, ok := observer.(preparer[R]); ok {
		return p, p.Observed()
	}
	return nil, observer
}
