package limitstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// honestCases count the denials of clients that use half of their limit. A bounded store that gives
// their room to others denies them anyway. It takes many keys to fill a store, so these cases make
// many decisions: see fillers.
var honestCases = []testCase{
	{
		name: "clients that have left cost others no denial",
		why: "clients come one after another, and each keeps to half of its sliding log. No more than " +
			"1% of their requests are denied, however many clients came before: entries that no longer " +
			"count are freed when others need them. A limiter that denies honest clients fails as surely " +
			"as one that admits too many; a store that did not do so denied 15% (DESIGN 6)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			client := func(name string, requests int) (denied int) {
				c := backends.Charge{Scope: "s", Key: name, Limit: honestLimit, Cost: 1}
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
		name: "long logs of one scope cost no denial in another",
		why: "clients of one scope keep to half of their sliding log. No more than 1% of their " +
			"requests are denied while 120 keys of another scope have used much of 10,000 a day, and none " +
			"more when those are fresh again; a store that did not do so denied 20% (DESIGN 6)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			const heavyKeys = 120
			for range h.fillers() / heavyKeys {
				for i := range heavyKeys {
					w.take(backends.Charge{Scope: "heavy", Key: fmt.Sprint(i),
						Limit: limits.SlidingLog(limits.PerDay(10_000)), Cost: 1})
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
		name:      "logs from before a step of the clock cost no denial",
		stepsBack: true,
		why: "clients come after the clock has stepped back past the takings of many others, and " +
			"keep to half of their sliding log. No more than 1% of their requests are denied: the entries " +
			"of clients that have left are freed, whether they are before the step or after it. A store " +
			"that counted them as live until the clock had caught up denied 98% in a minute (DESIGN 5, " +
			"a clock that steps back)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, h.clockAt(newYear), nil}
			const maxKeys, early, late = 1000, 600, 200
			for _, back := range []time.Duration{2 * mins, 1 * day} {
				w.backend = h.OpenSmall(t, w.clock.now, maxKeys)
				for i := range early {
					for range 3 {
						w.take(backends.Charge{Scope: "s", Key: fmt.Sprint("early ", i), Limit: honestLimit, Cost: 1})
						w.clock.advance(10 * us)
					}
				}
				w.clock.advance(-back)
				w.atMost(1, w.honest("s", late, 200), late*200,
					fmt.Sprintf("of the requests of honest clients, in four minutes after a step back by %s,",
						back))
			}
		},
	},
	{
		name: "a flood of keys in one scope leaves the regulars of another alone",
		why: "ten times as many keys as the store has room for come in one scope, and stay live for " +
			"a day. Regulars of another scope, who need two fifths of the room, keep to half of their " +
			"limit, and no more than 1% of their requests are denied; a store that did not do so " +
			"denied 73% (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, h.clockAt(newYear), nil}
			const rounds = 40
			maxKeys := max(10, min(1000, h.Decisions/20))
			for _, l := range h.limits.rates(limits.PerMinute(100)) {
				w.backend = h.OpenSmall(t, w.clock.now, maxKeys)
				denied, regulars := 0, maxKeys*2/5
				for round := range rounds {
					for i := range 10 * maxKeys / rounds {
						w.take(backends.Charge{Scope: "flood", Key: fmt.Sprint(round, " ", i),
							Limit: plain(limits.PerDay(10)), Cost: 1})
					}
					for i := range regulars {
						c := backends.Charge{Scope: "regular", Key: fmt.Sprint(i), Limit: l, Cost: 1}
						if !w.take(c)[0].Allowed {
							denied++
						}
					}
					w.clock.advance(honestPause)
				}
				w.atMost(1, denied, rounds*regulars,
					about(l, "of the requests of regulars, with room for %d keys,", maxKeys))
			}
		},
	},
}

// honestLimit is twice the rate of a client that makes a request every honestPause.
var honestLimit = limits.SlidingLog(limits.PerMinute(100))

const honestPause = 1200 * ms

// honest makes requests of clients that use half of honestLimit, and returns how many were denied.
func (w world) honest(scope string, clients, requests int) (denied int) {
	w.Helper()
	for range requests {
		for i := range clients {
			c := backends.Charge{Scope: scope, Key: fmt.Sprint(i), Limit: honestLimit, Cost: 1}
			if !w.take(c)[0].Allowed {
				denied++
			}
		}
		w.clock.advance(honestPause)
	}
	return denied
}

// atMost checks that at most percent of the requests were denied.
func (w world) atMost(percent, denied, requests int, label string) {
	w.Helper()
	if denied*100 > percent*requests {
		w.Errorf("%.1f%% %s were denied", 100*float64(denied)/float64(requests), label)
	}
}

// fillers returns how many decisions fill a store: more than a million in memory, and across a
// network as many as take seconds.
func (h Harness) fillers() int { return h.Decisions * h.Decisions / 280 }
