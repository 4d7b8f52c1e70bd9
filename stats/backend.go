package stats

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Backend is a [backends.Backend] that measures how long the calls of another take. It passes calls
// and results on unchanged. It has every optional method; a method that the inner backend lacks
// returns [errors.ErrUnsupported]. It is safe for concurrent use.
type Backend struct {
	inner  backends.Backend
	counts *backendCounts
}

type operation uint8

const (
	opTake operation = iota
	opPeek
	opSettle
	opReset
	opCount
)

var operationNames = [...]string{"take", "peek", "settle", "reset", "count"}

type backendCounts [len(operationNames)]operationCounts

type operationCounts struct {
	succeeded, failed                     histogram
	timeout, canceled, unsupported, other atomic.Int64
}

// Take implements [backends.Backend].
func (b *Backend) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) (err error) {
	defer b.counts.time(opTake, time.Now(), &err)
	return b.inner.Take(ctx, charges, out)
}

// Peek implements [backends.Peeker] if the inner backend does.
func (b *Backend) Peek(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) (err error) {
	defer b.counts.time(opPeek, time.Now(), &err)
	return backends.Peek(ctx, b.inner, charges, out)
}

// Settle implements [backends.Settler] if the inner backend does. One call may carry the
// endings of many requests.
func (b *Backend) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) (err error) {
	defer b.counts.time(opSettle, time.Now(), &err)
	return backends.Settle(ctx, b.inner, endings, out)
}

// Reset implements [backends.Resetter] if the inner backend does.
func (b *Backend) Reset(ctx context.Context, scope, key string) (err error) {
	defer b.counts.time(opReset, time.Now(), &err)
	return backends.Reset(ctx, b.inner, scope, key)
}

// Count implements [backends.Counter] if the inner backend does.
func (b *Backend) Count(ctx context.Context) (n int, err error) {
	defer b.counts.time(opCount, time.Now(), &err)
	return backends.Count(ctx, b.inner)
}

// Supports implements [backends.Supporter].
func (b *Backend) Supports(limit limits.Limit) bool { return backends.Supports(b.inner, limit) }

// HonoursDeadline reports whether the inner backend keeps to deadlines. Package remote asks for it.
func (b *Backend) HonoursDeadline() bool {
	h, ok := b.inner.(interface{ HonoursDeadline() bool })
	return ok && h.HonoursDeadline()
}

// Unwrap returns the inner backend. Limiters look there for optional interfaces, such as
// [backends.Divided].
func (b *Backend) Unwrap() backends.Backend { return b.inner }

// time counts one call that began at start and returned *err. A panic counts as an error.
func (c *backendCounts) time(op operation, start time.Time, err *error) {
	took := time.Since(start)
	counts := &c[op]
	if v := recover(); v != nil {
		counts.failed.add(took)
		counts.other.Add(1)
		panic(v)
	}
	if *err == nil {
		counts.succeeded.add(took)
		return
	}
	counts.failed.add(took)
	counts.reason(*err).Add(1)
}

// reason returns the counter for err. Reasons are few because they are labels of metrics.
func (c *operationCounts) reason(err error) *atomic.Int64 {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case errors.Is(err, context.Canceled):
		return &c.canceled
	case errors.Is(err, context.DeadlineExceeded), ok && timeout.Timeout():
		return &c.timeout
	case errors.Is(err, errors.ErrUnsupported):
		return &c.unsupported
	}
	return &c.other
}

func (c *backendCounts) snapshot(name string) BackendSnapshot {
	shot := BackendSnapshot{Name: name}
	for op := range c {
		of := &c[op]
		shot.Operations = append(shot.Operations, OperationSnapshot{
			Name: operationNames[op], Succeeded: of.succeeded.snapshot(),
			Failed: of.failed.snapshot(),
			Errors: Errors{
				of.timeout.Load(), of.canceled.Load(), of.unsupported.Load(), of.other.Load(),
			},
		})
	}
	return shot
}
