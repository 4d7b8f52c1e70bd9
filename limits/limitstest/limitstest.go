package limitstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Harness opens the backends that Run tests. Open is required.
type Harness struct {
	// Open returns an empty backend whose clock is now, and closes it by t.Cleanup. The backend
	// calls now once for every Take or Peek, and holds no lock then: a case may call the backend
	// from within now, to make the outer call late. The backend must not drop state before it is
	// fresh by now. If its store expires keys by a clock of its own, they must live longer under
	// test, since now may stand still for long.
	Open func(t testing.TB, now func() time.Time) backends.Backend

	// OpenSmall is Open for a backend that keeps at most maxKeys keys and displaces some if there
	// are more. nil: the backend is not bounded, and Run omits the cases about displacement.
	OpenSmall func(t testing.TB, now func() time.Time, maxKeys int) backends.Backend

	// Decisions is about how many decisions each random case makes. Other cases shrink with it;
	// those that fill a store shrink by its square. Lower it for a backend across a network.
	// 0: 20,000.
	Decisions int

	// CountsLate says that the backend's Count may include fresh keys, because its store expires
	// keys by a clock of its own.
	CountsLate bool

	// Seed makes the random cases equal in each run. 0: a new one for each run. A failure prints
	// the flag -weir.seed that repeats the run.
	Seed uint64

	limits    *selection // set for each case
	keepsTime bool
}

// Run tests that the backends of h keep the contract of [backends.Backend]. Each case is a subtest
// that on failure prints the statement it shows.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("limitstest: Harness.Open is nil")
	}
	for _, c := range cases() {
		if c.small && h.OpenSmall == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.check(t, h) })
	}
}

// testCase is one statement about backends.
type testCase struct {
	name  string
	why   string // printed on failure: the statement, and the section that makes it
	small bool   // needs Harness.OpenSmall

	stepsBack bool // only for a backend whose time goes back with its clock
	keepsTime bool // only for a backend whose time does not go back
	run       func(t testing.TB, h Harness)
}

func (c testCase) check(t testing.TB, h Harness) {
	t.Helper()
	if h.Decisions == 0 {
		h.Decisions = 20_000
	}
	h = h.tolerating()
	now := h.clockAt(newYear).now
	if c.small {
		h.limits = selectionOf(t, h.OpenSmall(t, now, 64))
	} else {
		h.limits = selectionOf(t, h.Open(t, now))
	}
	defer func() {
		h.limits.report(t)
		if t.Failed() {
			t.Logf("this case shows that %s", c.why)
		}
	}()
	if h.keepsTime = keepsTime(t, h.Open); c.stepsBack && h.keepsTime || c.keepsTime && !h.keepsTime {
		return
	}
	c.run(t, h)
}

// cases returns all cases, the simple ones first.
func cases() []testCase {
	all := stepCases()
	for _, group := range [][]testCase{
		timeCases, denialCases, waitCases, groupCases, shadowCases, keyCases, errorCases,
		expiryCases, alternateCases, concurrencyCases, historyCases, randomCases, smallCases, lateCases,
		honestCases, refundCases, endCases, kindCases, cornerCases, lentCases,
	} {
		all = append(all, group...)
	}
	for _, a := range algorithms() {
		all = append(all, a.cases...)
	}
	return all
}

// world is a backend and its clock. Most cases use one.
type world struct {
	testing.TB
	clock   *clock
	backend backends.Backend
}

func (h Harness) world(t testing.TB) world {
	t.Helper()
	c := h.clockAt(newYear)
	return world{t, c, h.Open(t, c.now)}
}

// take returns the decisions on charges, and ends the test on an error.
func (w world) take(charges ...backends.Charge) []limits.Decision {
	w.Helper()
	out := dirty(len(charges))
	if err := w.backend.Take(context.Background(), charges, out); err != nil {
		w.Fatalf("Take: %v", err)
	}
	return out
}

// look returns the decision on a charge of no units, which takes nothing.
func (w world) look(c backends.Charge) limits.Decision {
	w.Helper()
	c.Cost = 0
	return w.take(c)[0]
}

// expect takes charges and compares the decisions with want. Their At must be the clock's.
func (w world) expect(label string, charges []backends.Charge, want ...limits.Decision) {
	w.Helper()
	if len(charges) != len(want) {
		w.Fatalf("%s: %d charges are compared with %d decisions", label, len(charges), len(want))
	}
	got := w.take(charges...)
	for i := range want {
		want[i].At = w.clock.micros()
	}
	if d := diff(charges, got, want); d != "" {
		w.Errorf("%s:\n%s", label, d)
	}
}

// canPeek reports whether b can peek.
func canPeek(t testing.TB, b backends.Backend) bool {
	t.Helper()
	looking := []backends.Charge{{Scope: "can peek", Limit: tryable(b)}}
	err := backends.Peek(context.Background(), b, looking, dirty(1))
	return can(t, "Peek", err)
}

// canReset reports whether b can reset.
func canReset(t testing.TB, b backends.Backend) bool {
	t.Helper()
	return can(t, "Reset", backends.Reset(context.Background(), b, "can reset", "k"))
}

// canCount reports whether b can count.
func canCount(t testing.TB, b backends.Backend) bool {
	t.Helper()
	_, err := backends.Count(context.Background(), b)
	return can(t, "Count", err)
}

func can(t testing.TB, method string, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("%s: %v", method, err)
	}
	return err == nil
}
