package backends

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/limits"
)

// Charge asks for units of one limit under one key.
type Charge struct {
	Scope string // keeps the keys of one rule apart from those of another
	Key   string // who is counted; "" is the key of all requests that have none
	Limit limits.Limit
	Cost  int64 // units to take; 0 looks without taking, below 0 is an error

	// Shadow charges are decided, and taken if they fit and the others do, but
	// never stand in the way of the others.
	Shadow bool

	// Lasts says that the charge may be ended with other units than it took, see
	// [Settler], and how long until then most requests last. 0: it has no end, or
	// Limit is a concurrency limit.
	Lasts time.Duration
}

// Backend keeps the state of every key and takes units atomically. Limiters
// call it from many goroutines. memory.New makes the one that lives in this
// process; package limitstest has the suite that every implementation passes.
//
// A backend around another that passes scopes and keys on as they are should
// have a method Unwrap() Backend that returns the other: limiters on both then
// share one fallback, see core.Config.
type Backend interface {
	// Take decides all charges as one atomic step, at one instant: if every
	// charge that is not Shadow fits, all that fit are taken; otherwise none
	// is. It sets out[i] to the decision on charges[i]; the two have equal
	// length. Charges that name the same scope and key are decided as one
	// charge of their summed cost; different limits among them are an error.
	//
	// A denial is a decision. An error means that there is no decision, and
	// the content of out is then meaningless. Its text has no key, since limiters
	// log it. Take keeps neither slice, and answers or fails soon after ctx ends.
	Take(ctx context.Context, charges []Charge, out []limits.Decision) error
}

// Peeker is implemented by backends that can decide without taking.
type Peeker interface {
	// Peek sets out as Take would at this instant, but takes nothing, so that
	// Remaining is what there is without the charge.
	Peek(ctx context.Context, charges []Charge, out []limits.Decision) error
}

// Resetter is implemented by backends that can forget a key.
type Resetter interface {
	// Reset makes the state of key under scope fresh, as if it had never been
	// charged. To reset a key that has no state is no error.
	Reset(ctx context.Context, scope, key string) error
}

// Counter is implemented by backends that can count their keys.
type Counter interface {
	// Count returns how many keys have a state that is not fresh. It may have
	// to look at every one of them.
	Count(ctx context.Context) (int, error)
}

// Peek calls [Peeker.Peek] on b, or returns an error that is
// [errors.ErrUnsupported] if b has no such method.
func Peek(ctx context.Context, b Backend, charges []Charge, out []limits.Decision) error {
	if p, ok := b.(Peeker); ok {
		return p.Peek(ctx, charges, out)
	}
	return unsupported(b, "peek")
}

// Reset calls [Resetter.Reset] on b, or returns an error that is
// [errors.ErrUnsupported] if b has no such method.
func Reset(ctx context.Context, b Backend, scope, key string) error {
	if r, ok := b.(Resetter); ok {
		return r.Reset(ctx, scope, key)
	}
	return unsupported(b, "reset")
}

// Count calls [Counter.Count] on b, or returns an error that is
// [errors.ErrUnsupported] if b has no such method.
func Count(ctx context.Context, b Backend) (int, error) {
	if c, ok := b.(Counter); ok {
		return c.Count(ctx)
	}
	return 0, unsupported(b, "count")
}

func unsupported(b Backend, verb string) error {
	return fmt.Errorf("backends: a %T cannot %s: %w", b, verb, errors.ErrUnsupported)
}
