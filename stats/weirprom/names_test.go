package weirprom_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats/weirprom"
)

// A label that is not UTF-8 makes Collect panic, on a goroutine of the registry: that
// would be the end of the program.
func TestNamesOfAnyBytesAreScraped(t *testing.T) {
	s := newStats()
	for _, name := range []string{"", "a\xff", "a\xfe", "a\uFFFD", "a\x00\n\"", "é"} {
		s.Limiter(name).ObserveEnd(limits.Settlement{Rule: name})
		s.Backend(name, memory.MustNew(memory.Options{}))
		s.WatchMemory(name, memory.MustNew(memory.Options{}))
		s.WatchBreaker(name, func() backends.BreakerStatus { return backends.BreakerStatus{State: "open"} })
		s.WatchLeases(name, func() backends.LeaseCounts { return backends.LeaseCounts{} })
		s.WatchShedder(name,
			shed.MustNew(shed.Options[int]{Classes: []shed.Class{{Name: "c" + name}, {Name: "c\xfd"}}}))
		s.WatchPolicy(name, digest("01234567890é"+name))
	}
	s.WatchPolicy("short", digest("01"))
	s.WatchPolicy("none", digest(""))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(weirprom.NewCollector(s))
	scrape(t, registry)
	if shot := s.Snapshot(); len(shot.Limiters) != 4 {
		t.Errorf("%d limiters, want 4: the names of some look alike", len(shot.Limiters))
	}
}

// digest is a policy with that digest.
type digest string

func (d digest) Digest() string               { return string(d) }
func (digest) Applied() time.Time             { return time.Time{} }
func (digest) Failure() (time.Time, error)    { return time.Time{}, nil }
func (digest) Loads() (applied, failed int64) { return 0, 0 }
