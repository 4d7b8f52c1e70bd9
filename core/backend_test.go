package core_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

func TestWhatABackendCannotDoIsUnsupported(t *testing.T) {
	var b backends.Backend = &asking.Broken{}
	_, countErr := backends.Count(t.Context(), b)
	for _, err := range []error{
		backends.Peek(t.Context(), b, nil, nil),
		backends.Reset(t.Context(), b, "s", "k"),
		countErr,
		backends.Reset(t.Context(), remote.MustNewDenialCache(b, remote.DenialCacheOptions{}), "s", "k"),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v is not ErrUnsupported", err)
		}
	}
}

func TestNothingRunsInTheBackground(t *testing.T) {
	before := runtime.NumGoroutine()
	m := memory.MustNew(memory.Options{})
	l := core.MustNew(core.Config[request]{
		Backend: remote.MustNewDenialCache(m, remote.DenialCacheOptions{}),
		Rules:   []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}},
	})
	for _, want := range []core.Verdict{core.Allowed, core.Denied, core.Denied} {
		decide(t, l, request{user: "ann"}, want)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before: nobody could stop the new ones", after, before)
	}
}

func TestWhatIsNotUsedCostsKilobytes(t *testing.T) {
	for name, test := range map[string]struct {
		most uint64
		make func()
	}{
		"a denial cache": {36 << 10, func() { remote.MustNewDenialCache(&asking.Broken{}, remote.DenialCacheOptions{}) }},
		"a limiter with a key": {64 << 10, func() {
			l := core.MustNew(core.Config[request]{
				Rules: []core.Rule[request]{{Name: "user", Limit: perMinute(1), Key: byUser}}})
			decide(t, l, request{user: "ann"}, core.Allowed)
		}},
	} {
		if bytes := asking.Allocated(test.make); bytes > test.most {
			t.Errorf("%s: %d bytes, want at most %d", name, bytes, test.most)
		}
	}
}
