package adaptive_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/shed"
)

// mixed is a row of the table of mixtures: an idle service has honest requests, and one client asks
// for answers of a millisecond on their route, again and again for a while.
type mixed struct {
	fast        float64         // requests a second of the client, while it asks
	asks, every time.Duration   // it asks for asks of every
	honest      float64         // requests a second of the others
	mean        time.Duration   // that these take
	with        string          // of mixedWith
	spread      float64         // of what honest requests take, a part of the mean; 0: exponential
	quick       []time.Duration // that the client's requests take, in turn
}

func (m *mixed) String() string {
	return fmt.Sprintf("%g/s of 1 ms for %v of %v, %g/s of %v, %s",
		m.fast, m.asks, m.every, m.honest, m.mean, m.with)
}

var mixedWith = []string{"default", "SLO", "Tenant", "MaxWait", "two classes"}

const (
	calmTime  = 10 * time.Second // without the client
	mixedTime = 60 * time.Second // with it
)

// mixtures returns the rows of the table.
func mixtures() (all []mixed) {
	for _, fast := range []float64{50, 100, 300} {
		for _, phase := range [][2]time.Duration{{2, 6}, {5, 10}, {1, 2}} {
			for _, honest := range []struct {
				rate float64
				mean time.Duration
			}{{50, 400 * msec}, {100, 50 * msec}, {20, time.Second}} {
				for _, with := range mixedWith {
					all = append(all, mixed{
						fast, phase[0] * time.Second, phase[1] * time.Second,
						honest.rate, honest.mean, with, 0.1, nil,
					})
				}
			}
		}
	}
	return all
}

// scenario returns the row as a scenario. The name of the client's route says more than a limiter
// sees: see seenRoute.
func (m *mixed) scenario() *overload.Scenario {
	fast := func(at time.Duration) float64 {
		if at < calmTime || (at-calmTime)%m.every >= m.asks {
			return 0
		}
		return m.fast
	}
	takes := func(mean time.Duration, spread float64) overload.Route {
		return overload.Route{
			Mean: func(time.Duration) time.Duration { return mean },
			Time: func(_ time.Duration, u float64) time.Duration {
				if spread == 0 {
					return time.Duration(-math.Log(1-u) * float64(mean))
				}
				return time.Duration(float64(mean) * (1 + spread*(2*u-1)))
			},
		}
	}
	honest, client := takes(m.mean, m.spread), takes(msec, 0.01)
	if m.quick != nil {
		client.Time = func(_ time.Duration, u float64) time.Duration {
			return m.quick[int(u*float64(len(m.quick)))]
		}
	}
	honest.Name, client.Name = "/page", "/page#fast"
	honest.Tenant = func(n int) string { return strconv.Itoa(n % 10) }
	client.Share = func(at time.Duration) float64 { return fast(at) / (fast(at) + m.honest) }
	honest.Share = func(at time.Duration) float64 { return 1 - client.Share(at) }
	s := &overload.Scenario{
		Slots: 10_000, Routes: []overload.Route{client, honest},
		SLO: time.Hour, Timeout: time.Hour,
		Length: calmTime + mixedTime, From: calmTime,
	}
	s.Load = func(at time.Duration, _ float64) float64 {
		return (fast(at) + m.honest) / s.Capacity(at)
	}
	return s
}

// sameRoute is a simulated Shedder that sees one route where the scenario has several: what comes
// after # is hidden from it.
type sameRoute struct{ simulated }

func (l sameRoute) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := l.Acquire(context.Background(), r)
	if permit == nil {
		return nil, false
	}
	return func(failed bool) { permit.End(shed.Result{Route: seenRoute(r.Route), Failed: failed}) }, true
}

func seenRoute(name string) string {
	route, _, _ := strings.Cut(name, "#")
	return route
}

// refused plays the row and returns the part of the honest requests that was refused.
func (m *mixed) refused(t *testing.T, seed uint64) (refused float64) {
	options := shed.Options[overload.Request]{}
	switch m.with {
	case "SLO":
		options.SLO = 2 * m.mean
	case "Tenant":
		options.Tenant = func(r overload.Request) string { return r.Tenant }
	case "MaxWait":
		options.MaxWait = 50 * msec
	case "two classes":
		options.Classes = []shed.Class{{Name: "first"}, {Name: "second"}}
		options.Classify = func(r overload.Request) int {
			if r.Route == "/page" {
				return 0
			}
			return 1
		}
	}
	synctest.Test(t, func(*testing.T) {
		shedder := shed.MustNew(options)
		var x *overload.Result
		if m.with == "MaxWait" {
			x = wait(m.scenario(), shedder, seed)
		} else {
			x = m.scenario().Run(sameRoute{simulated{shedder}}, overload.Options{Load: 1, Seed: seed})
		}
		refused = x.Of["/page"].Refused()
	})
	return refused
}

// mixes are ways of the client and of the others in addition to those of the table.
var mixes = map[string]func(*mixed){
	"as in the table":     func(*mixed) {},
	"exponential times":   func(m *mixed) { m.spread = 0 },
	"uneven times":        func(m *mixed) { m.spread = 0.5 },
	"more honest ones":    func(m *mixed) { m.honest *= 4 },
	"fewer fast ones":     func(m *mixed) { m.fast /= 5 },
	"20 s of 40 s":        func(m *mixed) { m.asks, m.every = 20*time.Second, 40*time.Second },
	"half of each second": func(m *mixed) { m.asks, m.every = time.Second/2, time.Second },
	"1 to 250 ms, so that there is no gap": func(m *mixed) {
		for d := 1.0; d < 250; d *= 1.19 {
			m.quick = append(m.quick, time.Duration(d*float64(msec)))
		}
	},
}

// One client that asked for fast answers now and then had up to 61% of the others refused by an
// idle service: when it stopped, the requests that were left seemed to wait.
func TestFastAnswersOfOneClientLockNobodyOut(t *testing.T) {
	for what, change := range mixes {
		sum, n := 0.0, 0
		for i, m := range mixtures() {
			if !testrun.Full() && i%15 != len(what)%15 {
				continue
			}
			change(&m)
			refused := m.refused(t, uint64(i)+1)
			sum += refused
			n++
			most := 0.02
			if m.quick != nil {
				most = 0.3 // in the worst of 135 rows: a change of such times may look like a queue
			}
			if refused > most {
				t.Errorf("%s: %v: %.2f%% of the honest refused, want at most %g%%",
					what, &m, 100*refused, 100*most)
			}
		}
		if mean := sum / float64(n); mean > 0.01 {
			t.Errorf("%s: %.2f%% of the honest refused on average, want at most 1%%", what, 100*mean)
		}
	}
}
