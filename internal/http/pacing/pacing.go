// Package pacing gives clients of remote procedure calls the pacer of package client, which does
// not export it.
package pacing

import (
	"context"
	"net/http"
	"time"
)

// New returns a function that begins calls, which keep to the limits of servers. options is a
// client.Options; the error reports every mistake in it, a Base included. Package client sets New.
var New func(options any) (begin func(context.Context, Call) Turn, err error)

// Call describes a call. Functions of options see it as an HTTP request.
type Call struct {
	Scheme, Target string // of the server
	Method         string // "/package.Service/Method"
	Header         http.Header
	Idempotent     bool // may be carried out twice
	Once           bool // cannot be sent again
}

// Turn is one call. Its methods must not run at the same time.
type Turn interface {
	// Wait waits until the next attempt may start. It returns a *client.WaitError or the error of
	// the context.
	Wait(context.Context) error
	// Observe learns from the answer to the latest attempt, and reports whether the call is to be
	// sent again.
	Observe(context.Context, Answer) (again bool)
	// End ends the call. More calls of End do nothing.
	End()
}

// Answer is the answer to an attempt.
type Answer struct {
	Status int           // as in HTTP
	Fields http.Header   // by canonical names
	Wait   time.Duration // that is told elsewhere than in Fields; 0: none
}
