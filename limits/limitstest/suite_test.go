package limitstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// triedSeeds is with how many seeds a case may look for a defect: what a case draws depends on all
// limits that there are, so the first finds others whenever an algorithm is added.
const triedSeeds = 8

// TestTheSuiteNoticesBrokenBackends hands the suite backends with one defect
// each, many of them those of other limiters, and demands that the cases about it fail.
func TestTheSuiteNoticesBrokenBackends(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if len(m.caughtBy) == 0 {
				t.Fatal("say which cases notice it")
			}
			for _, name := range m.caughtBy {
				i := slices.IndexFunc(cases(), func(c testCase) bool { return c.name == name })
				if i < 0 {
					t.Fatalf("there is no case %q", name)
				}
				var r *recorder
				for seed := uint64(1); seed <= triedSeeds && (r == nil || !r.failed); seed++ {
					r = &recorder{TB: t}
					r.run(func() { cases()[i].check(r, m.harness(seed)) })
				}
				if !r.failed {
					t.Errorf("%q does not notice it with %d seeds", name, triedSeeds)
				}
				if r.failed && !strings.Contains(r.log.String(), "this case shows that") {
					t.Errorf("%q does not say what it shows:\n%s", name, &r.log)
				}
			}
		})
	}
}

// TestEveryCaseNoticesSomething keeps cases honest: one that no broken backend
// fails may as well not be there.
func TestEveryCaseNoticesSomething(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cases() {
		if names[c.name] {
			t.Errorf("two cases are called %q", c.name)
		}
		names[c.name] = true
		if c.why == "" || strings.ContainsAny(c.name, "/#") {
			t.Errorf("case %q has no explanation, or an odd name", c.name)
		}
		if c.keepsTime { // of which TestTheSuiteNoticesTimeThatGoesBack has a broken backend
			continue
		}
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return slices.Contains(m.caughtBy, c.name) }) {
			t.Errorf("no broken backend is caught by %q", c.name)
		}
	}
}

// goesBack is a backend whose time goes back, but for the key by which the suite finds out.
type goesBack struct{ *Exact }

func (b goesBack) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	err := b.Exact.Take(ctx, charges, out)
	if charges[0].Scope == "time" {
		out[0].At = 0
	}
	return err
}

func TestTheSuiteNoticesTimeThatGoesBack(t *testing.T) {
	h := Harness{Open: func(_ testing.TB, now func() time.Time) backends.Backend { return goesBack{NewExact(now)} }}
	for _, c := range timeCases {
		r := &recorder{TB: t}
		r.run(func() { c.check(r, h) })
		if !r.failed || !strings.Contains(r.log.String(), "this case shows that") {
			t.Errorf("%q does not notice it:\n%s", c.name, &r.log)
		}
	}
}

func TestTheSuiteToleratesTransientDenials(t *testing.T) {
	h := telling("", func(_ backends.Charge, d *limits.Decision) { d.Transient = !d.Allowed }).harness(2)
	h.Decisions = testrun.Sized(100, 6000)
	Run(t, h)
}

// recorder is a testing.TB whose failures are its own.
type recorder struct {
	testing.TB // for Cleanup, and what nobody calls

	mu       sync.Mutex
	failed   bool
	log      strings.Builder
	cleanups []func()
}

// run calls f as a test is called: it may end by FailNow.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func (r *recorder) Helper()                 {}
func (r *recorder) Cleanup(f func())        { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)         { r.write(false, fmt.Sprintln(args...)) }
func (r *recorder) Logf(f string, a ...any) { r.write(false, fmt.Sprintf(f, a...)) }
func (r *recorder) Error(args ...any)       { r.write(true, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(f string, a ...any) {
	r.write(true, fmt.Sprintf(f, a...))
}
func (r *recorder) Fatal(args ...any) {
	r.write(true, fmt.Sprintln(args...))
	runtime.Goexit()
}
func (r *recorder) Fatalf(f string, a ...any) {
	r.write(true, fmt.Sprintf(f, a...))
	runtime.Goexit()
}
func (r *recorder) Fail() { r.write(true, "") }
func (r *recorder) FailNow() {
	r.write(true, "")
	runtime.Goexit()
}

func (r *recorder) SkipNow() { runtime.Goexit() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) write(failed bool, s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log.WriteString(strings.TrimSuffix(s, "\n") + "\n")
}

// TestTheSuiteChargesByEveryAlgorithm fails when the file of an algorithm of limits is missing, or
// a list in it.
func TestTheSuiteChargesByEveryAlgorithm(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var drawn, lively []limits.Limit
	for range 2000 {
		drawn, lively = append(drawn, randomLimit(random)), append(lively, livelyLimit(random))
	}
	for _, id := range limits.Algorithms() {
		a := registered[id]
		if a == nil {
			t.Errorf("no file registers %v", id)
			continue
		}
		for name, choices := range map[string][]limits.Limit{
			"typical":     a.typical,
			"extreme":     a.extreme,
			"alternating": a.alternating,
			"limit":       {a.limit(limits.PerMinute(10))},
			"randomLimit": drawn,
			"livelyLimit": lively,
		} {
			if !slices.ContainsFunc(choices, func(l limits.Limit) bool { return l.Algorithm() == id }) {
				t.Errorf("%s has no %v", name, id)
			}
		}
		if a.together == [4]limits.Decision{} {
			t.Errorf("no group has a charge of %v", id)
		}
	}
}

// TestALimitOfEveryAlgorithmChangesItsMaximumAlone fails when an algorithm of limits is
// missing in changedLimit.
func TestALimitOfEveryAlgorithmChangesItsMaximumAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, limit := range everyAlgorithm(limits.Per(1009, 77_777*us)) { // which no list of limits has
		if !slices.ContainsFunc(make([]int, 200), func(int) bool {
			changed := changedLimit(random, limit)
			return changed != limit && sameCounting(changed, limit)
		}) {
			t.Errorf("changedLimit never changes the maximum of %v alone", limit.Algorithm())
		}
	}
}
