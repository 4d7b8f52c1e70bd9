package remote_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// complete is a backend that has all methods a backend may have.
type complete interface {
	backends.Backend
	backends.Peeker
	backends.Resetter
	backends.Counter
	backends.Settler
	Unwrap() backends.Backend
}

var _ = []complete{
	(*remote.Breaker)(nil), (*remote.LeaseCache)(nil), (*remote.DenialCache)(nil), (*remote.Stack)(nil),
}

func TestAStackCanDoWhatItsBackendCan(t *testing.T) {
	for name, b := range map[string]backends.Backend{"memory": memory.MustNew(memory.Options{}), "plain": new(dead)} {
		stack := remote.MustNewStack(b, remote.StackOptions{Logger: silence})
		_, isMemory := b.(*memory.Memory)
		if backends.CanSettle(stack) != isMemory || backends.Supports(stack, limits.Concurrent(1)) != isMemory {
			t.Errorf(
				"%s: settles %v, supports %v", name, backends.CanSettle(stack), backends.Supports(stack, limits.Concurrent(1)),
			)
		}
		if _, err := stack.Count(t.Context()); errors.Is(err, errors.ErrUnsupported) == isMemory {
			t.Errorf("%s: count: %v", name, err)
		}
	}
}

func TestABreakerUnwrapsToItsInnerBackend(t *testing.T) {
	b := &inner{Memory: memory.MustNew(memory.Options{})}
	if got := remote.MustNewBreaker(b, remote.BreakerOptions{}).Unwrap(); got != b {
		t.Errorf("it unwraps to %v", got)
	}
}

// dead is a backend that never answers.
type dead struct{ _ int }

func (*dead) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("dead")
}

func TestStacksOnOneBackendShareItsFallback(t *testing.T) {
	b := new(dead)
	allowed := 0
	var limiters []*core.Limiter[string]
	for i := range 4 {
		limiters = append(limiters, core.MustNew(core.Config[string]{
			Backend: remote.MustNewStack(b, remote.StackOptions{Logger: silence}),
			Rules: []core.Rule[string]{{
				Name: fmt.Sprint("route ", i), Scope: "clients", Limit: limits.FixedWindow(limits.PerDay(10)),
				Key: func(user string) (string, error) { return user, nil },
			}},
		}))
	}
	for i := range 60 {
		if o := limiters[i%4].Decide(t.Context(), "ann"); o.Allowed() {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("four routes with a stack each admitted %d, want 10", allowed)
	}
}

// answering is a backend whose denials may depend on units that it gives back later.
type answering struct {
	*memory.Memory
	honours bool
}

func (b answering) HonoursDeadline() bool { return b.honours }

func (b answering) Take(_ context.Context, _ []backends.Charge, out []limits.Decision) error {
	for i := range out {
		out[i] = limits.Decision{Transient: true, RetryAfter: 1, EffectiveWindow: 1}
	}
	return nil
}

func TestATransientDenialIsHandedThrough(t *testing.T) {
	for _, honours := range []bool{true, false} {
		out := make([]limits.Decision, 1)
		stack := remote.MustNewStack(answering{honours: honours}, remote.StackOptions{Logger: silence})
		err := stack.Take(t.Context(), charge("k"), out)
		if err != nil || out[0].Allowed || !out[0].Transient || out[0].Source != limits.SourcePrimary {
			t.Errorf("honours %v: %v, %+v, want a transient denial", honours, err, out[0])
		}
	}
}
