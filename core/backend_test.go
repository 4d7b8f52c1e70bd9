package core_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

func settle(t *testing.T, s limits.Settler, e limits.Ending) limits.Settlement {
	t.Helper()
	out := make([]limits.Settlement, 1)
	if err := s.Settle(t.Context(), []limits.Ending{e}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func TestWhatABackendCannotDoIsUnsupported(t *testing.T) {
	var b limits.Backend = &broken{}
	_, countErr := limits.Count(t.Context(), b)
	for _, err := range []error{
		limits.Peek(t.Context(), b, nil, nil),
		limits.Reset(t.Context(), b, "s", "k"),
		countErr,
		limits.Reset(t.Context(), remote.NewDenialCache(b, remote.DenialCacheOptions{}), "s", "k"),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v is not ErrUnsupported", err)
		}
	}
}

func TestNothingRunsInTheBackground(t *testing.T) {
	before := runtime.NumGoroutine()
	m := memory.New(memory.Options{})
	l := core.MustNew(core.Config[request]{
		Backend: remote.NewDenialCache(m, remote.DenialCacheOptions{}),
		Rules:   []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}},
	})
	for _, want := range []core.Verdict{core.Allowed, core.Denied, core.Denied} {
		decide(t, l, request{user: "ann"}, want)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before: nobody could stop the new ones", after, before)
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 { // others may allocate, too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

func TestWhatIsNotUsedCostsKilobytes(t *testing.T) {
	for name, test := range map[string]struct {
		most uint64
		make func()
	}{
		"a denial cache": {36 << 10, func() { remote.NewDenialCache(&broken{}, remote.DenialCacheOptions{}) }},
		"a limiter with a key": {64 << 10, func() {
			l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}}})
			decide(t, l, request{user: "ann"}, core.Allowed)
		}},
	} {
		if bytes := allocated(test.make); bytes > test.most {
			t.Errorf("%s: %d bytes, want at most %d", name, bytes, test.most)
		}
	}
}

// one takes cost units, to be ended, of a key.
func one(t *testing.T, m *memory.Memory, key string, limit limits.Limit, cost int64) limits.Decision {
	t.Helper()
	out := make([]limits.Decision, 1)
	if err := m.Take(t.Context(), []limits.Charge{{Scope: "s", Key: key, Limit: limit, Cost: cost, Lasts: time.Minute}}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func endingOf(d limits.Decision, key string, limit limits.Limit, taken, final int64) limits.Ending {
	return limits.Ending{Scope: "s", Key: key, Limit: limit, Taken: taken, Final: final, Ticket: d.Ticket, Lasts: time.Minute}
}
