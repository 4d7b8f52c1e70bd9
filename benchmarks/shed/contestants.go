// Package shed has limiters of requests in flight, for the scenarios of internal/proof/overload.
package shed

import (
	"context"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/shed"
)

// Contestant is a limiter that finds its limit itself, or has none.
type Contestant struct {
	Name string
	Weir bool
	// Library tells that it is a published library or algorithm.
	Library bool
	Make    func(*overload.Scenario) overload.Limiter
}

// Contestants returns all of them, in the order of the report.
func Contestants() []Contestant {
	return []Contestant{
		{Name: "nothing", Make: func(*overload.Scenario) overload.Limiter {
			return overload.Nothing{}
		}},
		{Name: "failsafe-go", Library: true, Make: func(*overload.Scenario) overload.Limiter {
			return failsafe{adaptivelimiter.NewWithDefaults[any]()}
		}},
		{Name: "Vegas, by its paper", Library: true,
			Make: func(*overload.Scenario) overload.Limiter { return newWindowed(&vegas{}) }},
		{Name: "Gradient2, as published", Library: true,
			Make: func(*overload.Scenario) overload.Limiter { return newWindowed(&gradient2{}) }},
		{Name: "weir", Weir: true, Make: func(*overload.Scenario) overload.Limiter {
			return Weir(shed.Options[overload.Request]{})
		}},
		{Name: "weir, told the SLO", Weir: true, Make: func(s *overload.Scenario) overload.Limiter {
			return Weir(shed.Options[overload.Request]{SLO: s.SLO})
		}},
	}
}

// WithClasses returns weir with the three classes of [overload.Request].
func WithClasses() overload.Limiter {
	return Weir(shed.Options[overload.Request]{
		Classes:  []shed.Class{{Name: "critical"}, {Name: "normal"}, {Name: "sheddable"}},
		Classify: func(r overload.Request) int { return r.Class },
	})
}

type weir struct {
	*shed.Shedder[overload.Request]
}

// Weir returns weir with options o.
func Weir(o shed.Options[overload.Request]) overload.Limiter { return weir{shed.MustNew(o)} }

func (w weir) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := w.Acquire(context.Background(), r)
	if permit == nil {
		return nil, false
	}
	return func(failed bool) {
		permit.End(shed.Result{Route: r.Route, Failed: failed, Refused: failed})
	}, true
}

type failsafe struct {
	adaptivelimiter.AdaptiveLimiter[any]
}

func (f failsafe) Enter(overload.Request) (func(bool), bool) {
	permit, ok := f.TryAcquirePermit()
	if !ok {
		return nil, false
	}
	return func(failed bool) {
		if failed {
			permit.Drop()
			return
		}
		permit.Record()
	}, true
}
