// Package shedgate lets adapters shed the requests of their frameworks. Package shed has the gate,
// and does not export it.
package shedgate

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/internal/http/watch"
)

// Open returns the Gate[R] of a *shed.Shedder[R] and a Config[R]. Package shed sets it.
var Open func(shedder, config any) (gate any)

// New returns the gate of a *shed.Shedder[R]. It panics if the shedder is nil or was not made by
// shed.New.
func New[R any](shedder any, config Config[R]) Gate[R] { return Open(shedder, config).(Gate[R]) }

// Gate sheds requests of type R, a framework's request. It is safe for concurrent use.
type Gate[R any] interface {
	// Serve decides request. If it may go on, Serve calls next and returns its error. next gets
	// a writer around w, which it must use: the first Flush and a Hijack take the request out
	// of flight. Make next once, not for every request.
	//
	// If the request is shed, or its context ends in the queue, Serve answers it, unless another
	// answer has begun, and returns the error of Options.Denied. The request ends when next
	// returns or panics.
	Serve(
		w http.ResponseWriter, r *http.Request, request R, next func(http.ResponseWriter, R) error,
	) error

	// ServeCall is Serve for a remote procedure call. Of Config it uses Route and Answered. next
	// gets the context of the call and its listener; nil: the shedder ignores the call. If the call
	// may not go on, ServeCall returns the header fields of the denial, with those of Options.Denied, and the
	// error of Options.Denied.
	ServeCall(
		ctx context.Context, request R, next func(context.Context, watch.Listener) error,
	) (denial http.Header, err error)
}

// Config says what a gate asks of a framework.
type Config[R any] struct {
	// Route names the route of a request that has ended, where Options.Route is nil. nil: all
	// requests are of one route.
	Route func(R) string

	// Committed reports whether the response has begun, so that it is too late for an answer. A
	// request that is shed then ends without one. nil: the response counts as not begun.
	Committed func(R) bool

	// Answered says what the framework knows of the answer when next has returned err, or nil
	// after a panic: see Config of internal/http/gate. nil: Serve looks at what is written, and an
	// error is a failure.
	Answered func(request R, err error) (status int, bytes int64, written bool)

	// WithRequest returns request with r, a copy of its *http.Request with another body. It is
	// called for requests with content. The time that a handler waits for that content is the
	// client's. nil: it is the service's, unless R is *http.Request.
	WithRequest func(request R, r *http.Request) R

	// Answer returns the writer for the answer to a request that is shed: a response of the
	// framework, which notes that it is committed. nil: the writer that Serve gets.
	Answer func(R) http.ResponseWriter

	// Own returns the status with which a limiter of weir answered request instead of the handler,
	// where that limiter does not find the writer that next gets: see MarkOwn of package watch. 0:
	// none did. nil: it does.
	Own func(R) int

	// Sending is set by a framework that sends answers after next has returned. A request whose
	// answer is sent in parts is a stream. nil: a request ends when next returns.
	Sending watch.Sending[R]
}
