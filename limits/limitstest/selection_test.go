package limitstest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// six is a Memory without anchored windows: charges under them are an error, as in a
// backend that was written before they were.
type six struct{ backends.Backend }

func (s six) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	for _, c := range charges {
		if c.Limit.Algorithm() == limits.AlgorithmAnchoredWindow {
			return errors.New("six: there are no anchored windows here")
		}
	}
	return s.Backend.Take(ctx, charges, out)
}

// sixDeclared says what it supports. A plain six does not say.
type sixDeclared struct{ six }

func (s sixDeclared) Supports(l limits.Limit) bool {
	return l.Algorithm() != limits.AlgorithmAnchoredWindow
}

// sixLying says that it supports anchored windows, and decides them as fixed ones.
type sixLying struct{ backends.Backend }

func (s sixLying) Supports(limits.Limit) bool { return true }

func (s sixLying) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	fixed := append([]backends.Charge{}, charges...)
	for i, c := range fixed {
		if c.Limit.Validate() == nil && c.Limit.Algorithm() == limits.AlgorithmAnchoredWindow {
			fixed[i].Limit = limits.FixedWindow(c.Limit.Rate())
		}
	}
	return s.Backend.Take(ctx, fixed, out)
}

func overMemory(wrap func(backends.Backend) backends.Backend) Harness {
	small := func(_ testing.TB, now func() time.Time, maxKeys int) backends.Backend {
		return wrap(memory.MustNew(memory.Options{Clock: now, MaxKeys: maxKeys, MaxLogEntries: 1}))
	}
	return Harness{
		Open: func(_ testing.TB, now func() time.Time) backends.Backend {
			return wrap(memory.MustNew(memory.Options{Clock: now}))
		},
		OpenSmall: small,
		Decisions: 3000, // enough that random histories have every algorithm
		Seed:      1,
	}
}

func TestABackendWithoutAnchoredWindowsPasses(t *testing.T) {
	t.Run("and says so", func(t *testing.T) {
		Run(t, overMemory(func(b backends.Backend) backends.Backend { return sixDeclared{six{b}} }))
	})
	t.Run("and says nothing", func(t *testing.T) {
		Run(t, overMemory(func(b backends.Backend) backends.Backend { return six{b} }))
	})
}

func TestCasesSayWhatTheyLeaveOut(t *testing.T) {
	h := overMemory(func(b backends.Backend) backends.Backend { return six{b} })
	for _, c := range cases() {
		r := &recorder{TB: t}
		r.run(func() { c.check(r, h) })
		said := strings.Contains(r.log.String(), "does not support") && strings.Contains(r.log.String(), "anchored-window")
		if charged := chargesAnchoredWindows(t, c); charged != said || r.failed {
			t.Errorf("%q charges anchored windows where it can: %t; without them it fails: %t, and logs:\n%s", c.name, charged,
				r.failed, &r.log)
		}
	}
}

// chargesAnchoredWindows reports whether c charges them where they are supported.
func chargesAnchoredWindows(t *testing.T, c testCase) bool {
	t.Helper()
	h := overMemory(func(b backends.Backend) backends.Backend { return sixClaiming{six{b}} })
	r := &recorder{TB: t}
	r.run(func() { c.check(r, h) })
	return strings.Contains(r.log.String(), "there are no anchored windows here")
}

// sixClaiming says that it supports anchored windows, and refuses them.
type sixClaiming struct{ six }

func (sixClaiming) Supports(limits.Limit) bool { return true }

func TestAClaimToSupportAnchoredWindowsIsTested(t *testing.T) {
	h := overMemory(func(b backends.Backend) backends.Backend { return sixLying{b} })
	h.Decisions = 0 // as many as by default: few of the random limits are anchored windows
	for _, name := range []string{
		"an anchored window opens with the first taking and closes a period later",
		"calls on one key are as if made one after another",
		"one charge at a time is decided as by the definitions",
		"a full store never allows too much",
	} {
		i := slices.IndexFunc(cases(), func(c testCase) bool { return c.name == name })
		if i < 0 {
			t.Fatalf("there is no case %q", name)
		}
		r := &recorder{TB: t}
		r.run(func() { cases()[i].check(r, h) })
		if !r.failed {
			t.Errorf("%q passes", name)
		}
	}
}

// A backend that counts by one algorithm, such as INCR and EXPIRE in a server, is a backend.
func TestABackendOfOneAlgorithmPasses(t *testing.T) {
	for _, only := range limits.Algorithms() {
		t.Run(only.String(), func(t *testing.T) {
			supports := func(l limits.Limit) bool { return l.Algorithm() == only }
			Run(t, overMemory(func(b backends.Backend) backends.Backend { return refusing{restricted{b, supports}} }))
		})
	}
}

// A suite that leaves everything out passes, and proves nothing.
func TestABackendThatSupportsTooLittleFails(t *testing.T) {
	for name, supports := range map[string]func(limits.Limit) bool{
		"nothing":            func(limits.Limit) bool { return false },
		"no more than a day": func(l limits.Limit) bool { return l.Rate().Period <= day },
		"only large log": func(l limits.Limit) bool {
			return l.Algorithm() != limits.AlgorithmSlidingLog || l.Burst() > 5
		},
	} {
		h := overMemory(func(b backends.Backend) backends.Backend { return restricted{b, supports} })
		for _, c := range cases() {
			r := &recorder{TB: t}
			r.run(func() { c.check(r, h) })
			if !r.failed || !strings.Contains(r.log.String(), "it must decide") {
				t.Errorf("%s: %q passes, and logs:\n%s", name, c.name, &r.log)
			}
		}
	}
}

type restricted struct {
	backends.Backend
	supports func(limits.Limit) bool
}

func (r restricted) Supports(l limits.Limit) bool { return r.supports(l) }

// refusing returns an error for a charge that it does not support.
type refusing struct{ restricted }

func (r refusing) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	for _, c := range charges {
		if c.Limit.Validate() == nil && !r.supports(c.Limit) {
			return errors.New("refusing: the limit is not supported")
		}
	}
	return r.restricted.Backend.Take(ctx, charges, out)
}
