package adaptive_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/shed/internal/adaptive"
)

var update = flag.Bool("update", false, "write testdata/traces.txt instead of comparing with it")

// traced is a simulated Shedder that records the adaptive limit after each window.
type traced struct {
	simulated
	algorithm *adaptive.Algorithm
	seen      int64 // updates
	windows   int
	last      float64
	text      strings.Builder
}

func (t *traced) Enter(r overload.Request) (func(bool), bool) {
	end, ok := t.simulated.Enter(r)
	t.look()
	if !ok {
		return nil, false
	}
	return func(failed bool) {
		end(failed)
		t.look()
	}, true
}

func (t *traced) look() {
	updates := t.State().Updates
	if updates == t.seen {
		return
	}
	t.seen = updates
	t.windows++
	limit, lent := t.algorithm.Limits()
	t.last = limit
	fmt.Fprintf(&t.text, "%x %x\n", limit, lent)
}

// trace runs a scenario and returns how many windows it had, the last limit, and a hash of all
// limits and loans.
func trace(t *testing.T, s *overload.Scenario, load float64, options shed.Options[overload.Request]) (got string) {
	synctest.Test(t, func(*testing.T) {
		a := adaptive.New()
		l := &traced{simulated: simulated{mustNewUsing(a, options)}, algorithm: a}
		s.Run(l, overload.Options{Load: load, Seed: 1, Classes: [2]float64{0.2, 0.5}})
		hash := sha256.Sum256([]byte(l.text.String()))
		got = fmt.Sprintf("%d windows, last %x, %x", l.windows, l.last, hash[:8])
	})
	return got
}

// The limit after each window of each scenario is that of testdata/traces.txt, to the last bit. A
// change of code that is to change no limit shows here that it does not; another one runs the test
// with -update.
func TestLimitsAreThoseOfTheTraces(t *testing.T) {
	if fused(1+0x1p-30, 1-0x1p-30, -1) {
		t.Skip("this processor rounds a product and a sum once, so that limits differ in their last bits")
	}
	const file = "testdata/traces.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			want[name] = rest
		}
	}
	var all strings.Builder
	compare := func(s *overload.Scenario, what string, load float64, options shed.Options[overload.Request]) {
		name := fmt.Sprintf("%s %s at %g", s.Name, what, load)
		got := trace(t, s, load, options)
		fmt.Fprintf(&all, "%s: %s\n", name, got)
		if got != want[name] && !*update {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
	}
	classes := shed.Options[overload.Request]{
		Classes:  []shed.Class{{Name: "critical"}, {Name: "normal"}, {Name: "sheddable"}},
		Classify: func(r overload.Request) int { return r.Class },
	}
	for _, s := range overload.Scenarios() {
		for _, load := range []float64{0.8, 1.5, 3} {
			if load != 1.5 && !testrun.Full() && !*update {
				continue
			}
			compare(s, "plainly", load, shed.Options[overload.Request]{})
			compare(s, "with an SLO", load, shed.Options[overload.Request]{SLO: s.SLO / 4})
			compare(s, "with classes", load, classes)
		}
	}
	for i := range table {
		if table[i].maxWait == 0 && (i%4 == 0 || testrun.Full() || *update) {
			compare(table[i].scenario(), "of the table", 1, shed.Options[overload.Request]{})
		}
	}
	for _, s := range overload.Sieges() {
		compare(s, "plainly", 0.9, shed.Options[overload.Request]{})
		if testrun.Full() || *update {
			compare(s, "plainly", 2, shed.Options[overload.Request]{})
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fused reports whether x*y+z is rounded once.
//
//go:noinline
func fused(x, y, z float64) bool { return x*y+z != float64(x*y)+z }
