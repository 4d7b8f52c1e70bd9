package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
)

// plainBackend decides by a memory and does not say what it supports.
type plainBackend struct{ memory *core.Memory }

func (b plainBackend) Take(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	for _, c := range charges {
		if c.Limit.Algorithm() == core.AlgorithmAnchoredWindow {
			return errors.New("what is an anchored window?")
		}
	}
	return b.memory.Take(ctx, charges, out)
}

// wrapped is a backend around another.
type wrapped struct{ core.Backend }

func (w wrapped) Unwrap() core.Backend { return w.Backend }

var anchored = core.AnchoredWindow(core.PerHour(60))

func TestABackendThatDoesNotSayDecidesTheFirstSixAlgorithms(t *testing.T) {
	memory := core.NewMemory(core.MemoryOptions{})
	plain := plainBackend{memory}
	for _, l := range []core.Limit{
		core.TokenBucket(core.PerHour(1), 1), core.LeakyBucket(core.PerHour(1), 1), core.LeakyQueue(core.PerHour(1), 1),
		core.FixedWindow(core.PerHour(1)), core.SlidingWindow(core.PerHour(1)), core.SlidingLog(core.PerHour(1)), anchored,
	} {
		want := l.Algorithm() != core.AlgorithmAnchoredWindow
		if core.Supports(plain, l) != want || core.Supports(core.NewDenialCache(plain, core.DenialCacheOptions{}), l) != want {
			t.Errorf("%v: supported %v, want %v", l, !want, want)
		}
		if !core.Supports(memory, l) || !core.Supports(core.NewDenialCache(wrapped{memory}, core.DenialCacheOptions{}), l) {
			t.Errorf("%v is not supported by a memory, or by what wraps one", l)
		}
	}
}

func TestARuleThatItsBackendCannotDecideIsAMistake(t *testing.T) {
	plain := wrapped{plainBackend{core.NewMemory(core.MemoryOptions{})}}
	rules := []core.Rule[request]{{Name: "hourly", Limit: anchored, Key: byUser}, {Name: "minute", Limit: perMinute(1), Key: byUser}}
	_, err := core.New(core.Config[request]{Rules: rules, Backend: plain})
	want := `core: rule "hourly": limit: the backend, a core_test.wrapped, does not decide an anchored-window: choose another algorithm or backend; one of your own says by core.Supporter what it decides`
	if err == nil || err.Error() != want {
		t.Errorf("the backend: %v, want\n%s", err, want)
	}
	_, err = core.New(core.Config[request]{Rules: rules, Fallback: plain})
	if err == nil || !strings.Contains(err.Error(), "the fallback, a core_test.wrapped, does not decide") {
		t.Errorf("the fallback: %v", err)
	}
}

func TestALimitFoundThatTheBackendCannotDecideIsAnErrorOfLimitFor(t *testing.T) {
	found := anchored
	l := core.MustNew(core.Config[request]{
		Rules: []core.Rule[request]{{
			Name: "plan", Key: byUser, LimitFor: func(request) (core.Limit, error) { return found, nil },
		}},
		Backend: plainBackend{core.NewMemory(core.MemoryOptions{})},
	})
	o := decide(t, l, request{user: "ann"}, core.Unavailable)
	if o.Err() == nil || !strings.Contains(o.Err().Error(), "does not decide an anchored-window") || o.At(0).Source != core.SourceClosed {
		t.Errorf("%v decided by %v, want no fallback to hide it", o.Err(), o.At(0).Source)
	}
	found = perMinute(1)
	decide(t, l, request{user: "ann"}, core.Allowed)
}
