package limitstest

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// row is the bans of a key that are in a row: each began less than the longest ban after the one
// before had ended.
type row struct {
	bans int64 // 0: no ban is remembered
	end  int64 // of the last one; it may be over
}

// isGrowing reports whether bans of l grow.
func isGrowing(l limits.Limit) bool { return l.Algorithm() == limits.AlgorithmGrowingBan }

// isBan reports whether l bans.
func isBan(l limits.Limit) bool {
	return l.Algorithm() == limits.AlgorithmBan || isGrowing(l)
}

// isOver reports whether a ban that begins at instant x begins a new row under l.
func (r row) isOver(x int64, l limits.Limit) bool {
	return r.bans == 0 || x >= r.end+l.Longest().Microseconds()
}

// lasts returns how long the last ban of r lasts under l.
func (r row) lasts(l limits.Limit) int64 {
	lasts, longest := l.Lasting().Microseconds(), l.Longest().Microseconds()
	for n := int64(1); n < r.bans; n++ {
		lasts = min(2*lasts, longest)
	}
	return lasts
}

// bannedAt returns u, whose ban begins at instant x.
func bannedAt(u usage, x int64) usage {
	if u.row.isOver(x, u.limit) {
		u.row = row{}
	}
	u.row.bans = min(u.row.bans+1, 63) // a backend counts no further
	u.row.end = x + u.row.lasts(u.limit)
	u.until = u.row.end
	return u
}

// grown returns u, under a ban that grows, at instant x: without the units, the ban and the row that
// are over.
func grown(u usage, x int64) usage {
	if u.isOver(x) {
		u.curr, u.until, u.at = 0, 0, x
	}
	if u.until == 0 && u.row.isOver(x, u.limit) {
		u.row = row{}
	}
	return u
}

// bannedUnder returns u, a usage of a ban, under another limit of its kind at instant x. A ban that
// does not grow forgets the row. One that grows begins a row with the ban that has begun.
func bannedUnder(u usage, l limits.Limit, x int64) usage {
	switch {
	case isGrowing(u.limit) == isGrowing(l):
	case isGrowing(u.limit):
		u = grown(u, x)
		u.row = row{}
	case u.until != 0:
		u.row = row{1, u.until}
	}
	u.limit = l
	return u
}

// returning returns u, under a ban that grows, after n units of a taking at the instant at came
// back. If that lifts the ban, the one before counts as having ended when the period began.
func returning(u usage, at, n, now int64) usage {
	if at < u.at || at >= u.at+micros(u.limit) || u.isOver(now) {
		return u
	}
	u.curr -= n
	if u.until != 0 && u.curr < u.limit.Burst() {
		u.until = 0
		if u.row = (row{u.row.bans - 1, u.at}); u.row.bans == 0 {
			u.row = row{}
		}
	}
	return u
}

// growsFreshAt is freshAt for a ban that grows.
func growsFreshAt(u usage) int64 {
	at := u.at
	if u.curr > 0 && u.until == 0 {
		at += micros(u.limit)
	}
	if u.row.bans > 0 {
		at = max(at, u.row.end+u.limit.Longest().Microseconds())
	}
	return at
}

// growingCases are about bans that grow (DESIGN 12).
var growingCases = []testCase{
	growingCase("each ban of a row is twice as long, up to the longest",
		"5 units in 10 minutes ban for an hour, and bans grow to 4 hours: the next one that begins less "+
			"than 4 hours after the last one ended lasts 2 hours, then 4; at 4 hours, and not 1µs "+
			"earlier, the next ban lasts an hour again; looks and denied requests lengthen nothing "+
			"(DESIGN 12)",
		func(w growingWorld) {
			l := growing
			w.is("4", l, 4, allowed(1, 10*mins, 10*mins))
			w.clock.advance(mins)
			w.is("the 5th", l, 1, allowed(0, hour, hour))
			w.clock.advance(hour - 1*us)
			w.is("1µs before the end", l, 9, denied(0, 1*us, 1*us))
			w.is("a look at it", l, 0, denied(0, 1*us, 1*us))
			w.clock.advance(1 * us)
			w.is("a look after it", l, 0, allowed(5, 0, 10*mins))
			w.clock.advance(4*hour - 1*us)
			w.is("5 at the end of the row", l, 5, allowed(0, 2*hour, 2*hour))
			w.clock.advance(2 * hour)
			for range 3 {
				w.is("5 at the end of the ban", l, 5, allowed(0, 4*hour, 4*hour))
				w.clock.advance(4 * hour)
			}
			w.clock.advance(4*hour - 5*mins)
			w.is("4 before the end of the row", l, 4, allowed(1, 10*mins, 10*mins))
			w.clock.advance(5 * mins)
			w.is("one more, after it", l, 1, allowed(0, hour, hour))
		}),
	growingCase("a reset forgets the row of bans",
		"a key that is forgiven starts with the first ban (backends.Resetter)",
		func(w growingWorld) {
			if !canReset(w, w.backend) {
				return
			}
			w.is("5", growing, 5, allowed(0, hour, hour))
			w.clock.advance(2 * hour)
			w.is("5 more", growing, 5, allowed(0, 2*hour, 2*hour))
			if err := backends.Reset(context.Background(), w.backend, "s", "k"); err != nil {
				w.Fatalf("Reset: %v", err)
			}
			w.is("5 after a reset", growing, 5, allowed(0, hour, hour))
		}),
	growingCase("a changed limit keeps the place in the row",
		"a ban that has begun keeps its end, and the next one is as long as its place in the row says "+
			"under the limit in force; a ban that does not grow forgets the row, and is the first of "+
			"one that does (DESIGN 12)",
		func(w growingWorld) {
			other := limits.Ban(limits.PerMinute(3), mins).Growing(day)
			plain := limits.Ban(limits.Per(5, 10*mins), hour)
			if !w.limits.has(plain) {
				return
			}
			w.is("the first ban", growing, 5, allowed(0, hour, hour))
			w.is("under another limit", other, 1, denied(0, hour, hour))
			w.clock.advance(hour)
			w.is("the second ban, under it", other, 3, allowed(0, 2*mins, 2*mins))
			w.is("under the first limit", growing, 1, denied(0, 2*mins, 2*mins))
			w.clock.advance(2 * mins)
			w.is("the third ban, under that", growing, 5, allowed(0, 4*hour, 4*hour))
			w.clock.advance(hour)
			w.is("under a plain ban", plain, 1, denied(0, 3*hour, 3*hour))
			w.is("under the first limit again", growing, 1, denied(0, 3*hour, 3*hour))
			w.clock.advance(3 * hour)
			w.is("the ban that follows the plain one", growing, 5, allowed(0, 2*hour, 2*hour))
			w.clock.advance(2 * hour)
			w.is("2 after it", growing, 2, allowed(3, 10*mins, 10*mins))
			w.is("3 more, under the plain ban", plain, 3, allowed(0, hour, hour))
			w.clock.advance(hour)
			w.is("5 after that, which Redis may have forgotten", growing, 5, allowed(0, hour, hour))
		}),
	{
		name: "no key inherits a row of bans",
		why: "whatever keys with rows of bans a full store has displaced, the first ban of a new key is " +
			"as long as a first one (DESIGN 12)",
		small: true,
		run: func(t testing.TB, h Harness) {
			if !h.limits.has(growing) {
				t.SkipNow()
			}
			c := h.clockAt(newYear)
			w := world{t, c, h.OpenSmall(t, c.now, 7)}
			for i := range 20 * 7 {
				charge := backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: growing, Cost: 5}
				if d := w.take(charge)[0]; !d.Allowed || d.ResetAfter > hour {
					t.Fatalf("with room for 7 keys, key %d: %s", i+1, showDecision(d))
				}
				if i%3 == 0 {
					w.clock.advance(hour)
					w.take(charge)
					w.clock.advance(2 * hour)
				}
			}
		},
	},
	endCase("a ban that is lifted leaves the row",
		"units that come back lift the second ban of a row, and the next one lasts as long as that; the "+
			"ban before counts as having ended when the period began (DESIGN 12)",
		func(w endWorld) {
			l := growing
			if !w.limits.has(l) {
				return
			}
			w.settles(w.begin("k", l, 4), 9, limits.Settlement{Charged: 5})
			w.clock.advance(2 * hour)
			a, b := w.begin("k", l, 3), w.begin("k", l, 1)
			w.clock.advance(mins)
			w.settles(b, 2, limits.Settlement{Charged: 1})
			w.is(a, denied(0, 2*hour, 2*hour))
			w.clock.advance(mins)
			w.settles(a, 1, limits.Settlement{Returned: 2})
			w.is(a, allowed(2, 8*mins, 8*mins))
			w.clock.advance(4*hour - 2*mins - 1*us)
			w.settles(w.begin("k", l, 4), 5, limits.Settlement{Charged: 1})
			w.is(a, denied(0, 2*hour, 2*hour))
			w.clock.advance(2 * hour)
			w.settles(w.begin("k", l, 5), 0, limits.Settlement{Returned: 5})
			w.clock.advance(4 * hour)
			w.begin("k", l, 5)
			w.is(a, denied(0, hour, hour))
		}),
}

// growing is the ban of most of them.
var growing = limits.Ban(limits.Per(5, 10*mins), hour).Growing(4 * hour)

// growingWorld is a world with a ban that grows.
type growingWorld struct {
	world
	limits *selection
}

func growingCase(name, why string, run func(w growingWorld)) testCase {
	return testCase{name: name, why: why, run: func(t testing.TB, h Harness) {
		if !h.limits.has(growing) {
			t.SkipNow()
		}
		run(growingWorld{h.world(t), h.limits})
	}}
}

// is charges the key of the case under l.
func (w growingWorld) is(label string, l limits.Limit, cost int64, want limits.Decision) {
	w.Helper()
	w.expect(label, []backends.Charge{{Scope: "s", Key: "k", Limit: l, Cost: cost}}, want)
}
