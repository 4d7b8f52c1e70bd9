package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// plainBackend decides by a memory and does not say what it supports.
type plainBackend struct{ memory *memory.Memory }

func (b plainBackend) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	for _, c := range charges {
		if c.Limit.Algorithm() == limits.AlgorithmAnchoredWindow {
			return errors.New("what is an anchored window?")
		}
	}
	return b.memory.Take(ctx, charges, out)
}

// bucketless is a backend that says that it decides no token bucket.
type bucketless struct{ *memory.Memory }

func (b bucketless) Supports(l limits.Limit) bool {
	return l.Algorithm() != limits.AlgorithmTokenBucket
}

// wrapped is a backend around another.
type wrapped struct{ backends.Backend }

func (w wrapped) Unwrap() backends.Backend { return w.Backend }

var anchored = limits.AnchoredWindow(limits.PerHour(60))

func TestABackendThatDoesNotSayDecidesTheFirstSixAlgorithms(t *testing.T) {
	store := memory.MustNew(memory.Options{})
	plain := plainBackend{store}
	for _, l := range []limits.Limit{
		limits.TokenBucket(limits.PerHour(1), 1), limits.LeakyBucket(limits.PerHour(1), 1),
		limits.LeakyQueue(limits.PerHour(1), 1),
		limits.FixedWindow(limits.PerHour(1)), limits.SlidingWindow(limits.PerHour(1)), limits.SlidingLog(limits.PerHour(1)),
		anchored, limits.Concurrent(1), limits.Ban(limits.PerHour(1), time.Hour), limits.Calendar(1, limits.Month),
	} {
		want := l.Algorithm() <= limits.AlgorithmSlidingLog
		if backends.Supports(plain, l) != want ||
			backends.Supports(remote.MustNewDenialCache(plain, remote.DenialCacheOptions{}), l) != want {
			t.Errorf("%v: supported %v, want %v", l, !want, want)
		}
		if !backends.Supports(store, l) ||
			!backends.Supports(remote.MustNewDenialCache(wrapped{store}, remote.DenialCacheOptions{}), l) {
			t.Errorf("%v is not supported by a memory, or by what wraps one", l)
		}
	}
}

func TestARuleThatItsBackendCannotDecideIsAMistake(t *testing.T) {
	plain := wrapped{plainBackend{memory.MustNew(memory.Options{})}}
	rules := []core.Rule[request]{
		{Name: "hourly", Limit: anchored, Key: byUser}, {Name: "minute", Limit: perMinute(1), Key: byUser},
	}
	_, err := core.New(core.Config[request]{Rules: rules, Backend: plain})
	want := `core: rule "hourly": limit: the backend, a core_test.wrapped, does not decide anchored-window limits: ` +
		`see backends.Supporter`
	if err == nil || err.Error() != want {
		t.Errorf("the backend: %v, want\n%s", err, want)
	}
	_, err = core.New(core.Config[request]{Rules: rules, Fallback: plain})
	if err == nil || !strings.Contains(err.Error(), "the fallback, a core_test.wrapped, does not decide") {
		t.Errorf("the fallback: %v", err)
	}
}

func TestALimitFoundThatTheBackendCannotDecideIsAnErrorOfLimitFor(t *testing.T) {
	store := memory.MustNew(memory.Options{})
	for _, tt := range []struct {
		backend backends.Backend
		limit   limits.Limit
	}{
		{plainBackend{store}, anchored},
		{bucketless{store}, limits.TokenBucket(limits.PerMinute(1), 1)},
	} {
		found := tt.limit
		l := core.MustNew(core.Config[request]{
			Rules: []core.Rule[request]{{
				Name: "plan", Key: byUser, LimitFor: func(request, string) (limits.Limit, error) { return found, nil },
			}},
			Backend: tt.backend,
		})
		o := decide(t, l, request{user: "ann"}, core.Unavailable)
		want := "does not decide " + found.Algorithm().String() + " limits"
		if o.Err() == nil || !strings.Contains(o.Err().Error(), want) || o.At(0).Source != limits.SourceClosed {
			t.Errorf("%v decided by %v, want no fallback to hide it", o.Err(), o.At(0).Source)
		}
		found = limits.SlidingWindow(limits.PerMinute(100))
		decide(t, l, request{user: "ann"}, core.Allowed)
	}
}
