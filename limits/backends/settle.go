package backends

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/limits"
)

// Ending says what a charge that was taken has come to at the end of its request.
type Ending struct {
	Scope string
	Key   string
	Limit limits.Limit // under which it was taken
	Taken int64        // units: the cost of the charge

	// Final is what the charge should have been. Less than Taken: the rest is returned.
	// More: the difference is charged now, whether it fits or not.
	//
	// Under a concurrency limit it is how many units stay held, and 0 at the end of a
	// request. A limiter also tells a fallback that is [InProcess] of the units that its
	// backend has allowed: Taken is 0, and Final units are held from now on, above the
	// limit too, until another Ending with the Ticket 0 says otherwise. Backends that are
	// not InProcess may take Final for 0.
	Final int64

	// Ticket is that of the [limits.Decision] on the charge.
	Ticket int64

	// Lasts is that of the charge.
	Lasts time.Duration
}

// Settler is implemented by backends that can end what they have taken.
type Settler interface {
	// Settle carries out endings, one after the other, and sets out[i] to what became
	// of endings[i]: Returned, Charged and Forgiven. The two have equal length. The
	// endings of one call may be of several requests. The caller passes each ending at
	// most once, whatever the error.
	//
	// An error means that what became of the endings is not known: each was carried out
	// once or not at all. Where some are known, out[i].Err is the error of the others
	// and Settle returns nil. Units of a concurrency limit are released sooner or later
	// even then.
	Settle(ctx context.Context, endings []Ending, out []limits.Settlement) error
}

// Divided is implemented by backends that keep their keys on several servers. Limiters send endings
// for different servers in different calls of Settle, so that none waits for a server that does not
// answer.
type Divided interface {
	// ServerOf returns which server has what is counted for a key: a comparable value, nil if
	// it is not known. It does not wait, and does not call a limiter.
	ServerOf(scope, key string, limit limits.Limit) any
}

// CanSettle reports whether b can end what it has taken. It asks the backend that
// decides: the innermost one, following the methods Unwrap() Backend.
func CanSettle(b Backend) bool {
	_, ok := Innermost(b).(Settler)
	return ok
}

// Settle calls [Settler.Settle] on b, or on the first of the backends that b wraps that
// is a [Settler]. It returns an error that is [errors.ErrUnsupported] if none is.
func Settle(ctx context.Context, b Backend, endings []Ending, out []limits.Settlement) error {
	if s, ok := As[Settler](b); ok {
		return s.Settle(ctx, endings, out)
	}
	return unsupported(Innermost(b), "settle")
}

// InProcess is implemented by backends that wait for nothing outside this process: the end of a
// request is settled at once, and a Local rule needs no other backend. InProcess returns the
// backend itself, so that a type which embeds one, and may do more, is not taken for it.
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

// ErrEndingDropped is the error of a [limits.Settlement] whose ending was not sent, because as many wait
// already as are kept: the backend is too slow or does not answer.
var ErrEndingDropped = errors.New("backends: the ending was dropped: too many wait for the backend")
