package backends

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/limits"
)

// Ending is the final cost of a charge that was taken, known when its request ends.
type Ending struct {
	Scope string
	Key   string
	Limit limits.Limit // that of the charge
	Taken int64        // units: the cost of the charge

	// Final is the final cost. If it is less than Taken, the rest is returned. If it is more, the
	// difference is charged now, whether it fits or not.
	//
	// Under a concurrency limit it is how many units stay held: 0 at the end of a request. A
	// limiter also sends endings to a fallback that is [InProcess], to tell it which units the
	// backend has allowed. In these Ticket and Taken are 0, and Final units are held from now on,
	// even above the limit, until another Ending with Ticket 0. Backends that are not InProcess may
	// ignore Final: it is 0 for them.
	Final int64

	// Value is the Value of the charge.
	Value uint64

	// Ticket is the Ticket of the [limits.Decision] on the charge, which was taken at most 400 days
	// ago: a backend need not tell older takings from newer ones.
	Ticket int64

	// Lasts is the Lasts of the charge.
	Lasts time.Duration

	// Lends is the Lends of the charge. Returned is then how many units the holder Value still had, at
	// most Taken - Final. If Value is 0, those that were taken last without a holder are returned:
	// what is left are then the oldest, whose ends may have been lost. An InProcess backend lends
	// Final units to the holder if Taken is 0, even above the limit.
	Lends time.Duration
}

// Settler is a Backend that carries out endings.
type Settler interface {
	// Settle carries out the endings, one after the other. It sets Returned, Charged and Forgiven
	// of out[i] for endings[i]; both slices have equal length. The endings of one call may be of
	// several requests. The caller passes each ending at most once, even after an error.
	//
	// After an error it is unknown which endings were carried out, each once or not at all. If only
	// some are unknown, Settle returns nil and sets out[i].Err of those. Even then the units of a
	// concurrency limit are released sooner or later.
	Settle(ctx context.Context, endings []Ending, out []limits.Settlement) error
}

// Divided is a Backend that keeps its keys on several servers. Limiters send the endings for
// different servers in different calls of Settle, so no ending waits for a server that is not its
// own.
type Divided interface {
	// ServerOf returns the server that keeps the state of a key: a comparable value, or nil if it
	// is not known. It does not wait, and does not call a limiter.
	ServerOf(scope, key string, limit limits.Limit) any
}

// CanSettle reports whether b can carry out endings: whether the innermost backend, found by the
// methods Unwrap() Backend, is a [Settler].
func CanSettle(b Backend) bool {
	_, ok := Innermost(b).(Settler)
	return ok
}

// Settle calls [Settler.Settle] on the first [Settler] among b and the backends that it wraps.
// Without a Settler, it returns an error that is [errors.ErrUnsupported].
func Settle(ctx context.Context, b Backend, endings []Ending, out []limits.Settlement) error {
	if s, ok := As[Settler](b); ok {
		return s.Settle(ctx, endings, out)
	}
	return unsupported(Innermost(b), "settle")
}

// Lender is a Backend that knows [Charge].Lends. The method Lends returns true.
type Lender interface {
	Settler
	Lends() bool
}

// CanLend reports whether the innermost backend of b, found by the methods Unwrap() Backend, is a
// [Lender].
func CanLend(b Backend) bool {
	l, ok := Innermost(b).(Lender)
	return ok && l.Lends()
}

// InProcess is a Backend that waits for nothing outside this process. So limiters settle the end of
// a request at once, and a Local rule needs no other backend. The method InProcess returns the
// backend itself: a type that embeds the backend inherits the method, and the result shows that it
// is another.
type InProcess interface {
	Backend
	InProcess() Backend
}

// IsInProcess reports whether b, or the backend that it wraps, is [InProcess].
func IsInProcess(b Backend) bool {
	b = Innermost(b)
	p, ok := b.(InProcess)
	return ok && p.InProcess() == b
}

// ErrEndingDropped is the error of a [limits.Settlement] whose ending was not sent because the
// queue was full: the backend is too slow or does not answer.
var ErrEndingDropped = errors.New("backends: the ending was dropped: too many wait for the backend")
