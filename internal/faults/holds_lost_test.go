package faults

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
)

// released returns how many times the server was asked to release a unit.
func (s *server) released(t testing.TB) int {
	t.Helper()
	operator := s.operator(t)
	defer operator.Close()
	stats := operator.InfoMap(t.Context(), "commandstats")
	must(t, stats)
	n := 0
	for _, c := range strings.Split(strings.TrimPrefix(stats.Item("Commandstats", "cmdstat_zrem"), "calls="), ",")[0] {
		n = 10*n + int(c-'0')
	}
	return n
}

// What is said to Redis at the end of a request is lost in some way, or comes late.
// Nothing is held for good, and a release that is repeated never takes the units of
// others.
func TestReleasesThatAreLostOrLateAreMadeOnce(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, p *proxy) (heal func()){
		"command lost": func(_ *testing.T, p *proxy) func() {
			p.fallSilent()
			return p.speak
		},
		"reply lost": func(_ *testing.T, p *proxy) func() {
			p.mute.Store(true)
			return func() { p.mute.Store(false) }
		},
		"command late": func(t *testing.T, p *proxy) func() { return p.holdUp(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			p := startProxy(t, s.addr)
			// Units do not end by themselves.
			of := holding{hold: longHold, onFailure: core.FailClosed, budget: patience}
			mine, other := newHolder(newClient(t, p.addr()), of), newHolder(newClient(t, s.addr), of)
			mine.start(t, 1)
			mine.end()
			holds(t, other.backend, 0) // the server knows the script
			known := s.released(t)
			if n := mine.start(t, atOnce); n != atOnce {
				t.Fatalf("%d are under way, want %d", n, atOnce)
			}
			if n := other.start(t, 1); n != 0 {
				t.Errorf("%d above the limit", n)
			}
			heal := fault(t, p)
			longest := mine.end()
			if longest > longestWait {
				t.Logf("an end took %v: the machine is slow", longest)
			}
			if name != "command late" {
				eventually(t, "something is lost", func() bool { return p.lost.Load() > 0 })
				heal()
			}
			// The release is repeated, and others have the units.
			eventually(t, "others have all units", func() bool { other.start(t, 1); return underWay(other) == atOnce })
			before := s.released(t)
			switch name {
			case "reply lost":
				eventually(t, "the release is repeated", func() bool { return s.released(t) > known+1 })
			case "command late":
				heal()
				eventually(t, "the late release arrives", func() bool { return s.released(t) > before })
			}
			for range 100 {
				if n := inRedis(t, other.backend); n != atOnce {
					t.Fatalf("%d are held, want the %d of others", n, atOnce)
				}
			}
			if n := other.start(t, 2) + mine.start(t, 2); n != 0 {
				t.Errorf("%d above the limit", n)
			}
			t.Logf("FAULT of a release: %s. Others had all %d units, 0 above the limit; the server was asked to release %d times; the longest of %d ends took %s ms",
				name, atOnce, s.released(t)-known, atOnce, ms(longest))
			other.end()
			exactAgain(t, other.backend, mine, other)
		})
	}
}
