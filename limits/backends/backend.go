package backends

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/limits"
)

// Charge is a request for units of one limit under one key.
type Charge struct {
	Scope string // keeps the keys of one rule apart from those of another
	Key   string // who is counted; "" for all requests without a key
	Limit limits.Limit
	Cost  int64 // units to take; 0 looks without taking, below 0 is an error

	// Value is what a limit that counts different values counts, such as a [limits.Distinct]: a
	// number that tells the values of a key apart. Other limits ignore it. A limiter makes it from
	// the text that core.Rule.Value returns, and passes no text on: see [Digester]. 0: none, which is
	// a number like others. Of lent units it is the holder: see Lends.
	Value uint64

	// Shadow charges are decided. They are taken if they fit and the request is allowed. They never
	// deny other charges.
	Shadow bool

	// Lasts says that the charge may end with other units than it took (see [Settler]), and how
	// long most requests last until then. 0: it has no end, or Limit is a concurrency limit.
	Lasts time.Duration

	// Lends says how long units of a concurrency limit are held at most: they end by themselves then,
	// unless an [Ending] with Lends returns them before. Any process may return them, since it needs no
	// Ticket: Value names their holder, or is 0. If a holder that has units takes more, all end with
	// the last. Only a [Lender] knows it: see [CanLend]. 0: the units are held until their Ending.
	Lends time.Duration
}

// Backend keeps the state of every key and takes units atomically. Limiters call it from many
// goroutines. memory.New makes one in this process. Package limitstest has the suite that every
// implementation passes.
//
// A clock that steps back must neither give units away nor lock a key out. Either the backend's
// time stands still until its clock has caught up. Or, after a step that is too long to wait for,
// the first Take counts the units in use as taken now.
//
// The limit under a key may change. If algorithm and period are the same (for buckets: the rate),
// the state carries over. Otherwise the first Take with the new limit converts it: the units in use
// count as taken now, at most the new maximum. A backend may drop only state that is fresh.
// docs/DESIGN.md has the rules in section 5, and in section 11 what the backends of weir give up.
//
// A wrapper that passes scopes and keys on unchanged should have a method Unwrap() Backend that
// returns the inner backend: limiters on both then share one fallback (see core.Config).
type Backend interface {
	// Take decides all charges as one atomic step, at one instant. If every charge that is not
	// Shadow fits, Take takes all that fit; otherwise it takes none. It sets out[i] to the decision
	// on charges[i]; both slices have equal length. Charges on the same scope and key are decided
	// as one charge of their summed cost. Different limits among them are an error, and so are
	// different values.
	//
	// Charges of later calls may be under another limit. Rates share a state, in which units of one
	// become units of the other. Bans, limits that count values and concurrency limits have a state
	// of their own for each scope and key.
	//
	// A denial is a decision. An error means that there is no decision; out is then meaningless.
	// The text of an error has no key, since limiters log it. Take keeps neither slice, and returns
	// soon after ctx ends.
	Take(ctx context.Context, charges []Charge, out []limits.Decision) error
}

// Peeker is a Backend that can decide without taking.
type Peeker interface {
	// Peek decides as Take would at this instant, but takes nothing. So Remaining is what is left
	// without the charge.
	Peek(ctx context.Context, charges []Charge, out []limits.Decision) error
}

// Resetter is a Backend that can forget a key.
type Resetter interface {
	// Reset makes the states of key under scope fresh, as if it had never been charged under any
	// limit. Units of concurrency limits stay held. A key without state is no error.
	Reset(ctx context.Context, scope, key string) error
}

// Counter is a Backend that can count its keys.
type Counter interface {
	// Count returns how many keys have a state that is not fresh. It may read the state of every
	// key.
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
