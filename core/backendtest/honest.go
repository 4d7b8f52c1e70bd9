package backendtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// honestCases count the requests of clients that keep to half of their limit and
// are denied all the same, because a bounded store gives to others what these
// need. It takes many others to fill a store: these cases make as many decisions
// as fillers says.
var honestCases = []testCase{
	{
		name: "clients that have left deny nobody",
		why:  "of clients that come one after another, each at half of its sliding log, no more than 1% of the requests are denied, however many came before: what they took is dead, and must free what it holds when that is needed (lesson: count the innocents; 15% were denied)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			client := func(name string, requests int) (denied int) {
				c := core.Charge{Scope: "s", Key: name, Limit: honestLimit, Cost: 1}
				for range requests {
					if !w.take(c)[0].Allowed {
						denied++
					}
					w.clock.advance(honestPause)
				}
				return denied
			}
			for i := range h.fillers() / 50 {
				client(fmt.Sprint("early ", i), 50)
			}
			const clients, requests = 20, 125
			denied := 0
			for i := range clients {
				denied += client(fmt.Sprint("late ", i), requests)
			}
			w.atMost(1, denied, clients*requests, "of the requests of honest clients, the last of many")
		},
	},
	{
		name: "long logs of one scope deny nobody in another",
		why:  "while 120 keys of 10,000 a day have used much of that, and when they are fresh again, no more than 1% of the requests of clients of another scope are denied that keep to half of their own sliding log (lesson: count the innocents; 20% were denied)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			const heavyKeys = 120
			for range h.fillers() / heavyKeys {
				for i := range heavyKeys {
					w.take(core.Charge{Scope: "heavy", Key: fmt.Sprint(i), Limit: core.SlidingLog(core.PerDay(10_000)), Cost: 1})
				}
				w.clock.advance(1 * sec)
			}
			for _, when := range []string{"while the others are live", "a week later"} {
				w.atMost(1, w.honest("honest", 20, 125), 20*125, "of the requests of honest clients, "+when)
				w.clock.advance(7 * day)
			}
		},
	},
	{
		name:  "logs from before a step of the clock deny nobody",
		why:   "of clients that come after the clock has stepped back past the takings of many others, and keep to half of their sliding log, no more than 1% of the requests are denied: who has left holds nothing that they need, on whichever side of the step (DESIGN 5, a clock that steps back; up to 98% of those of a minute were denied)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, clockAt(newYear), nil}
			const places, early, late = 1000, 600, 200
			for _, back := range []time.Duration{2 * mins, 1 * day} {
				w.backend = h.OpenSmall(t, w.clock.now, places)
				for i := range early {
					for range 3 {
						w.take(core.Charge{Scope: "s", Key: fmt.Sprint("early ", i), Limit: honestLimit, Cost: 1})
						w.clock.advance(10 * us)
					}
				}
				w.clock.advance(-back)
				w.atMost(1, w.honest("s", late, 200), late*200, fmt.Sprintf("of the requests of honest clients, in four minutes after a step back by %s,", back))
			}
		},
	},
	{
		name:  "a flood of keys in one scope leaves the regulars of another alone",
		why:   "while ten times as many keys as there are places come in one scope, and stay live for a day, no more than 1% of the requests are denied of regulars of another scope, who are two fifths of the places and keep to half of their limit (DESIGN 6; lesson: count the innocents; 73% were denied)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, clockAt(newYear), nil}
			const rounds = 40
			places := max(10, min(1000, h.Decisions/20))
			for _, l := range everyAlgorithm(core.PerMinute(100)) {
				w.backend = h.OpenSmall(t, w.clock.now, places)
				denied, regulars := 0, places*2/5
				for round := range rounds {
					for i := range 10 * places / rounds {
						w.take(core.Charge{Scope: "flood", Key: fmt.Sprint(round, " ", i), Limit: core.FixedWindow(core.PerDay(10)), Cost: 1})
					}
					for i := range regulars {
						if !w.take(core.Charge{Scope: "regular", Key: fmt.Sprint(i), Limit: l, Cost: 1})[0].Allowed {
							denied++
						}
					}
					w.clock.advance(honestPause)
				}
				w.atMost(1, denied, rounds*regulars, about(l, "of the requests of regulars, with %d places,", places))
			}
		},
	},
}

// honestLimit is kept to by half with one request in every honestPause.
var honestLimit = core.SlidingLog(core.PerMinute(100))

const honestPause = 1200 * ms

// honest has clients keep to half of honestLimit, and returns how many of their
// requests were denied.
func (w world) honest(scope string, clients, requests int) (denied int) {
	w.Helper()
	for range requests {
		for i := range clients {
			if !w.take(core.Charge{Scope: scope, Key: fmt.Sprint(i), Limit: honestLimit, Cost: 1})[0].Allowed {
				denied++
			}
		}
		w.clock.advance(honestPause)
	}
	return denied
}

// atMost checks that no more than so many percent of requests were denied.
func (w world) atMost(percent, denied, requests int, what string) {
	w.Helper()
	if denied*100 > percent*requests {
		w.Errorf("%.1f%% %s were denied", 100*float64(denied)/float64(requests), what)
	}
}

// fillers is how many decisions fill a store: more than a million for one in
// memory, and so few across a network that they take seconds.
func (h Harness) fillers() int { return h.Decisions * h.Decisions / 280 }
