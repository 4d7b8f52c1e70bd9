package overload

import "time"

// Sieges returns scenarios in which some requests take long, and the others need nothing of what
// those wait for: connections that ask for what takes 5 s, and a dependency of one route. The
// others are of the route /a. All scenarios have 4 slots of 10 ms.
func Sieges() []*Scenario {
	const begin, end = 20 * time.Second, 80 * time.Second
	others := route("/a", 1, 10*ms, 0.2)
	slow := Route{Name: "/slow", Aside: true, Share: always(0.0), Mean: always(10 * ms),
		Time: func(at time.Duration, u float64) time.Duration {
			if at < begin {
				return around(10*ms, 0.2)(at, u)
			}
			return 5 * time.Second
		}}
	// taught makes the slow route a twentieth of all requests, and fast, until the siege begins.
	taught := func(s *Scenario) {
		a, b := others, slow
		b.Share = func(at time.Duration) float64 {
			if at < begin-5*time.Second {
				return 0.05
			}
			return 0
		}
		a.Share = func(at time.Duration) float64 { return 1 - b.Share(at) }
		s.Routes = []Route{b, a}
	}
	steady := func(_ time.Duration, load float64) float64 { return load }
	base := Scenario{
		Slots: 4, Routes: []Route{slow, others}, Load: steady, SLO: 200 * ms, Timeout: time.Second,
		Length: end, From: begin, Siege: Siege{Span{begin, end}, "/slow", 10, 20 * ms},
	}
	of := func(name, about string, change func(*Scenario)) *Scenario {
		s := base
		s.Name, s.About = name, about
		change(&s)
		return &s
	}
	beside := func(s *Scenario) { // /b waits for a pool of its own, and /a needs nothing of it
		a, b := others, route("/b", 0.5, 10*ms, 0.2)
		a.Share, a.Aside = always(0.5), true
		s.Routes, s.Siege = []Route{a, b}, Siege{}
	}
	return []*Scenario{
		of("siege", "ten connections ask for what takes 5 s and was never asked for before",
			func(*Scenario) {}),
		of("taught", "the same, of a route that was fast before", taught),
		of("afterwards", "the same, and an overload before the siege", func(s *Scenario) {
			s.Load = func(at time.Duration, load float64) float64 {
				if at < 10*time.Second {
					return 2
				}
				return load
			}
		}),
		of("beside", "two routes, of which one waits for 4 slots and one for nothing", beside),
		of("part hangs", "half of the requests wait for a dependency that hangs "+
			"from 20 s to 30 s", func(s *Scenario) {
			beside(s)
			s.Routes[0].Aside, s.Routes[1].Aside = false, true
			s.Hang, s.Hangs, s.Length = Span{begin, begin + 10*time.Second}, "/b", 50*time.Second
		}),
	}
}
