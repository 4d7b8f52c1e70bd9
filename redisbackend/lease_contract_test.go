package redisbackend_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// All that is not leased is decided through a lease cache as without it: other limits, other
// algorithms, several rules, ends, and what changes meanwhile. What leased limits promise
// instead is tested where leases are.
func TestThroughALeaseCacheWhatIsNotLeasedKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	onRedis := harness(server.addr, 2000)
	inMemory := limitstest.Harness{
		Open: func(t testing.TB, now func() time.Time) backends.Backend {
			return memory.MustNew(memory.Options{Clock: now})
		},
		Decisions: sized(20_000),
	}
	for name, h := range map[string]limitstest.Harness{"memory": inMemory, "Redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := h.Open
			h.Open = func(t testing.TB, now func() time.Time) backends.Backend {
				inner := open(t, now)
				return pastLeases{remote.MustNewLeaseCache(inner, remote.LeaseOptions{}), inner}
			}
			limitstest.Run(t, h)
		})
	}
}

// pastLeases is a lease cache that leased limits go past, with all that they are decided with.
type pastLeases struct {
	*remote.LeaseCache
	inner backends.Backend
}

// isLeased reports whether one of limits is leased.
func isLeased[T any](all []T, limit func(T) limits.Limit) bool {
	return slices.ContainsFunc(all, func(one T) bool {
		_, lease := remote.Leased(limit(one), time.Second)
		return lease > 0
	})
}

func limitOf(ch backends.Charge) limits.Limit { return ch.Limit }

func (b pastLeases) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if isLeased(charges, limitOf) {
		return b.inner.Take(ctx, charges, out)
	}
	return b.LeaseCache.Take(ctx, charges, out)
}

func (b pastLeases) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if isLeased(charges, limitOf) {
		return backends.Peek(ctx, b.inner, charges, out)
	}
	return b.LeaseCache.Peek(ctx, charges, out)
}

func (b pastLeases) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	if isLeased(endings, func(e backends.Ending) limits.Limit { return e.Limit }) {
		return backends.Settle(ctx, b.inner, endings, out)
	}
	return b.LeaseCache.Settle(ctx, endings, out)
}
