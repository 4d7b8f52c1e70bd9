package overload

import (
	"math"
	"time"
)

const ms = time.Millisecond

// around returns times between mean·(1-spread) and mean·(1+spread), uniformly.
func around(mean time.Duration, spread float64) func(time.Duration, float64) time.Duration {
	return func(_ time.Duration, u float64) time.Duration {
		return time.Duration(float64(mean) * (1 + spread*(2*u-1)))
	}
}

func always[T any](x T) func(time.Duration) T { return func(time.Duration) T { return x } }

// route returns a route whose share and times do not change.
func route(name string, share float64, mean time.Duration, spread float64) Route {
	return Route{Name: name, Share: always(share), Time: around(mean, spread), Mean: always(mean)}
}

// slower multiplies the times of a route by f(at).
func (r Route) slower(f func(time.Duration) float64) Route {
	t, mean := r.Time, r.Mean
	r.Time = func(at time.Duration, u float64) time.Duration {
		return time.Duration(float64(t(at, u)) * f(at))
	}
	r.Mean = func(at time.Duration) time.Duration {
		return time.Duration(float64(mean(at)) * f(at))
	}
	return r
}

// during is f in the span and 1 at other times.
func during(s Span, f float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if s.has(at) {
			return f
		}
		return 1
	}
}

// stepAt offers half of the capacity, or the load if that is less. From the instant from on, it
// offers the load.
func stepAt(from time.Duration) func(time.Duration, float64) float64 {
	return func(at time.Duration, load float64) float64 {
		if at < from {
			return min(0.5, load)
		}
		return load
	}
}

// Scenarios returns all scenarios, in the order of the report.
func Scenarios() []*Scenario {
	const calm, length = 10 * time.Second, 40 * time.Second
	pool := route("/", 1, 50*ms, 0.2)
	base := Scenario{
		Slots: 20, Routes: []Route{pool}, Load: stepAt(calm), SLO: 250 * ms, Timeout: time.Second,
		Length: length, From: calm, Step: calm,
	}
	of := func(name, about string, change func(*Scenario)) *Scenario {
		s := base
		s.Name, s.About = name, about
		change(&s)
		return &s
	}
	return []*Scenario{
		of("cpu", "2 slots of 2 ms, a load that steps up after 10 s", func(s *Scenario) {
			s.Slots, s.Routes, s.SLO = 2, []Route{route("/", 1, 2*ms, 0.5)}, 50*ms
			s.Timeout = 200 * ms
		}),
		of("pool", "20 slots of 50 ms, a load that steps up after 10 s", func(*Scenario) {}),
		of("bimodal", "8 slots, 95% of 2 ms and 5% of 100 ms on one route", func(s *Scenario) {
			s.Slots, s.SLO = 8, 500*ms
			fast, slow := around(2*ms, 0.5), around(100*ms, 0.2)
			mean := always(6900 * time.Microsecond)
			s.Routes = []Route{{Name: "/", Share: always(1.0), Mean: mean,
				Time: func(at time.Duration, u float64) time.Duration {
					if u < 0.95 {
						return fast(at, u/0.95)
					}
					return slow(at, (u-0.95)/0.05)
				}}}
		}),
		of("mix", "8 slots, routes of 2 ms and 100 ms; "+
			"from 20 s to 30 s the slow one rises from 5% to 40% of requests", func(s *Scenario) {
			s.Slots, s.SLO = 8, 500*ms
			share := func(at time.Duration) float64 {
				return 0.05 + 0.35*math.Min(1, math.Max(0, (at-20*time.Second).Seconds()/10))
			}
			fast, slow := route("/fast", 0, 2*ms, 0.5), route("/slow", 0, 100*ms, 0.2)
			fast.Share = func(at time.Duration) float64 { return 1 - share(at) }
			slow.Share = share
			s.Routes = []Route{fast, slow}
		}),
		of("slow-30s", "20 slots of 50 ms, five times slower from 20 s to 50 s", func(s *Scenario) {
			s.Length, s.Fixed, s.SLO = 70*time.Second, true, 500*ms
			s.Trouble = Span{20 * time.Second, 55 * time.Second}
			s.Step, s.End = 20*time.Second, 50*time.Second
			s.Routes = []Route{pool.slower(during(Span{20 * time.Second, 50 * time.Second}, 5))}
		}),
		of("slow-for-good", "20 slots of 50 ms, "+
			"three times slower from 20 s on", func(s *Scenario) {
			s.Length, s.Fixed, s.SLO = 60*time.Second, true, 500*ms
			s.Trouble, s.Step = Span{20 * time.Second, time.Hour}, 20*time.Second
			s.Routes = []Route{pool.slower(during(Span{20 * time.Second, time.Hour}, 3))}
		}),
		of("hang", "20 slots of 50 ms, nothing ends from 20 s to 30 s", func(s *Scenario) {
			s.Hang = Span{20 * time.Second, 30 * time.Second}
			s.Length = 50 * time.Second
			s.Trouble = Span{20 * time.Second, 35 * time.Second}
			s.Step, s.End = s.Hang.From, s.Hang.To
		}),
		of("timeouts", "20 slots of 50 ms, handlers that fail after 200 ms in the queue, "+
			"under load from the start", func(s *Scenario) {
			s.Patience, s.Load, s.From, s.Step = 200*ms, stepAt(0), 0, 0
		}),
		of("few", "1 slot of 200 ms: five requests a second", func(s *Scenario) {
			s.Slots, s.Routes, s.SLO = 1, []Route{route("/", 1, 200*ms, 0.2)}, 2*time.Second
			s.Length, s.Timeout = 130*time.Second, 4*time.Second
		}),
		of("cold", "20 slots of 50 ms, under load from the start", func(s *Scenario) {
			s.Load, s.From, s.Step = stepAt(0), 0, 0
		}),
		of("health", "20 slots of 50 ms, and 90% of requests are health checks of 0.2 ms "+
			"that need no slot", func(s *Scenario) {
			check := route("/healthz", 0.9, 200*time.Microsecond, 0.5)
			check.Aside = true
			work := pool
			work.Share = always(0.1)
			s.Routes = []Route{check, work}
		}),
		of("spike", "20 slots of 50 ms, half of the capacity, "+
			"the load from 20 s to 30 s only", func(s *Scenario) {
			s.Load = func(at time.Duration, load float64) float64 {
				if at >= 20*time.Second && at < 30*time.Second {
					return load
				}
				return min(0.5, load)
			}
			s.Length, s.Step, s.End = 45*time.Second, 20*time.Second, 30*time.Second
		}),
	}
}
