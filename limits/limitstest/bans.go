package limitstest

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// banCases are about bans (DESIGN 12).
var banCases = []testCase{
	{
		name: "the charge that reaches the number is allowed and bans",
		why: "10 units in 10 minutes ban for an hour: what reaches or passes the number is allowed; " +
			"then every charge is denied, of cost 0 too, and denials do not prolong the ban; after it the " +
			"key is fresh, and an end of the period before it forgets the units (DESIGN 12)",
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.Per(10, 10*mins), hour)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			w := h.world(t)
			charge := func(cost int64) []backends.Charge {
				return []backends.Charge{{Scope: "s", Key: "k", Limit: l, Cost: cost}}
			}
			w.expect("a look", charge(0), allowed(10, 0, 10*mins))
			w.expect("9", charge(9), allowed(1, 10*mins, 10*mins))
			w.clock.advance(10*mins - 1*us)
			w.expect("a look at the end of the period", charge(0), allowed(1, 1*us, 1*us))
			w.clock.advance(1 * us)
			w.expect("9 in the next period", charge(9), allowed(1, 10*mins, 10*mins))
			w.clock.advance(5 * mins)
			w.expect("30 more", charge(30), allowed(0, hour, hour))
			for _, cost := range []int64{1, 0, 100} {
				w.clock.advance(10 * mins)
				left := hour - w.clock.now().Sub(newYear.Add(15*mins))
				w.expect(fmt.Sprint(cost, " while banned"), charge(cost), denied(0, left, left))
			}
			w.clock.advance(30*mins - 1*us)
			w.expect("1µs before the end", charge(0), denied(0, 1*us, 1*us))
			w.clock.advance(1 * us)
			w.expect("after the ban", charge(1), allowed(9, 10*mins, 10*mins))
		},
	},
	{
		name: "a banned key denies the request and takes nothing elsewhere",
		why: "a ban is decided with all other rules: a denied request takes nothing of them, and a " +
			"shadow of a banned key denies nothing (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerMinute(1), hour)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			w := h.world(t)
			ban := backends.Charge{Scope: "ban", Key: "k", Limit: l, Cost: 1}
			rate := backends.Charge{Scope: "rate", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)),
				Cost: 1}
			w.take(ban)
			w.expect("banned", []backends.Charge{ban, rate}, denied(0, hour, hour), allowed(5, 0, hour))
			ban.Shadow = true
			w.expect("banned in shadow", []backends.Charge{ban, rate}, denied(0, hour, hour),
				allowed(4, hour, hour))
		},
	},
	endCase("a refund lifts the ban that it undoes",
		"units that come back within their period lift the ban that they made, and what is charged "+
			"during a ban is ignored (DESIGN 12)",
		func(w endWorld) {
			l := limits.Ban(limits.PerMinute(10), hour)
			if !w.limits.has(l) {
				return
			}
			first, last := w.begin("k", l, 4), w.begin("k", l, 6)
			w.clock.advance(30 * sec)
			w.settles(first, 9, limits.Settlement{Forgiven: 5})
			w.settles(last, 1, limits.Settlement{Returned: 5})
			w.is(first, allowed(5, 30*sec, 30*sec))
			more := w.begin("k", l, 1)
			w.settles(more, 5, limits.Settlement{Charged: 4})
			w.expect("a charge at the end bans",
				[]backends.Charge{{Scope: "s", Key: "k", Limit: l, Cost: 1}}, denied(0, hour, hour))
			w.settles(w.begin("cap", l, 0), 100, limits.Settlement{Charged: 20, Forgiven: 80})
		}),
	{
		name: "a changed ban keeps its count and its end", small: false,
		why: "a ban under another number or period keeps what it has counted, and a ban that has begun " +
			"its end; a limit that is no ban starts fresh (DESIGN 12)",
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerMinute(10), hour)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			w := h.world(t)
			charge := func(l limits.Limit, cost int64) []backends.Charge {
				return []backends.Charge{{Scope: "s", Key: "k", Limit: l, Cost: cost}}
			}
			w.take(charge(l, 5)...)
			w.expect("under 20", charge(limits.Ban(limits.PerMinute(20), 2*hour), 0),
				allowed(15, mins, mins))
			w.expect("under 7", charge(limits.Ban(limits.PerMinute(7), 2*hour), 2),
				allowed(0, 2*hour, 2*hour))
			w.clock.advance(hour)
			w.expect("under 10 again", charge(l, 0), denied(0, hour, hour))
			w.expect("under a rate", charge(limits.FixedWindow(limits.PerDay(3)), 1),
				allowed(2, 23*hour, 23*hour))
		},
	},
	{
		name: "a changed ban brings back nothing that is over",
		why: "units of a period that is over under the ban that counted them are gone under a longer " +
			"one too, since a backend may have dropped them; a longer one that is charged in time keeps " +
			"them (DESIGN 5: absent state equals fresh state)",
		run: func(t testing.TB, h Harness) {
			short, long := limits.Ban(limits.PerMinute(10), hour), limits.Ban(limits.PerHour(20), 2*hour)
			if !h.limits.has(short) {
				t.SkipNow()
			}
			w := h.world(t)
			charge := func(l limits.Limit, cost int64) []backends.Charge {
				return []backends.Charge{{Scope: "s", Key: "k", Limit: l, Cost: cost}}
			}
			w.expect("5 of 10 a minute", charge(short, 5), allowed(5, mins, mins))
			w.clock.advance(mins)
			w.expect("a look at 20 an hour after the minute", charge(long, 0), allowed(20, 0, hour))
			w.expect("1 of 20 an hour", charge(long, 1), allowed(19, hour, hour))
			w.clock.advance(2 * mins)
			w.expect("a look at 10 a minute", charge(short, 0), allowed(10, 0, mins))
			w.expect("a look at 20 an hour, which counts on", charge(long, 0), allowed(19, 58*mins, 58*mins))
			w.expect("5 of 10 a minute again", charge(short, 5), allowed(5, mins, mins))
			w.expect("a look at 20 an hour in time", charge(long, 0), allowed(15, hour, hour))
			w.clock.advance(30 * sec)
			w.expect("1 of 20 an hour in the same minute", charge(long, 1),
				allowed(14, hour-30*sec, hour-30*sec))
			w.clock.advance(mins)
			w.expect("after the minute, which is now an hour", charge(long, 15), allowed(0, 2*hour, 2*hour))
			w.clock.advance(hour)
			w.expect("banned for two hours, whatever the limit", charge(short, 0), denied(0, hour, hour))
		},
	},
	{
		name: "no key inherits a ban",
		why: "whatever banned keys a full store has displaced, a new key is not banned: its first " +
			"charge is allowed (DESIGN 12)",
		small: true,
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerHour(5), day)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			for _, maxKeys := range []int{1, 7, 64} {
				c := h.clockAt(newYear)
				w := world{t, c, h.OpenSmall(t, c.now, maxKeys)}
				for i := range 20 * maxKeys {
					charge := backends.Charge{Scope: "s", Key: fmt.Sprint("new ", i), Limit: l, Cost: 5}
					if d := w.take(charge)[0]; !d.Allowed {
						t.Fatalf("with room for %d keys, the first charge of key %d: %s", maxKeys, i+1,
							showDecision(d))
					}
				}
				fewer := limits.Ban(limits.PerHour(2), day)
				charge := backends.Charge{Scope: "s", Key: "under a lower number", Limit: fewer, Cost: 1}
				if d := w.take(charge)[0]; !d.Allowed {
					t.Errorf("with room for %d keys, the first charge under a lower number: %s", maxKeys,
						showDecision(d))
				}
			}
		},
	},
}
