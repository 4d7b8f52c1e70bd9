// Package pacing lets clients of remote procedure calls use the pacer of package client, which is
// not exported.
package pacing

import (
	"context"
	"net/http"
	"time"
)

// New returns a function that begins calls which keep to the limits of servers. options is a
// client.Options. The error reports every mistake in them; that Base is set is one. Package client
// sets New.
var New func(options any) (func(context.Context, Call) Turn, error)

// Call describes a call. For functions of options it is made into an HTTP request.
type Call struct {
	Scheme, Target string // of the server
	Method         string // "/package.Service/Method"
	Header         http.Header
	Idempotent     bool // may be carried out twice
	Once           bool // cannot be sent again
}

// Turn is one call. Its methods are called one at a time.
type Turn interface {
	// Wait waits until the next attempt may start. It returns a *client.WaitError or the error of
	// the context.
	Wait(context.Context) error
	// Observe notes the answer to the latest attempt, and reports whether there is to be another.
	Observe(context.Context, Answer) (again bool)
	// End ends the call. It may be called more than once.
	End()
}

// Answer is how an attempt ends.
type Answer struct {
	Status int           // as in HTTP
	Fields http.Header   // by canonical names
	Wait   time.Duration // that is told elsewhere than in Fields; 0: none is
}
