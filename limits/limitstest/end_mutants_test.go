package limitstest

import (
	"context"
	"math/big"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

const (
	endsExactly = "requests that end are decided as if they had cost what they did"
	endsBack    = "requests that end are decided as if they had cost what they did while the clock steps back"
	endsChanged = "requests that end are decided as if they had cost what they did while limits change"
)

func isHeld(l limits.Limit) bool { return l.Algorithm().Holds() }
func isBan(l limits.Limit) bool  { return countedBy(l) == unitsOfBans }

// edit changes the usage of the account of an ending.
func (b *broken) edit(e backends.Ending, change func(u *usage, now int64)) {
	b.locked(func(l ledger, now int64) {
		a := account{e.Scope, e.Key, countedBy(e.Limit)}
		if u, ok := l[a]; ok {
			change(&u, now)
			l[a] = u
		}
	})
}

// relimit writes the usages of charges under their new limits, where they carry over, also those
// that are fresh.
func (b *broken) relimit(charges []backends.Charge) {
	b.locked(func(l ledger, _ int64) {
		for _, c := range charges {
			a := accountOf(c)
			if u, ok := l[a]; ok && sameCounting(u.limit, c.Limit) {
				u.limit = c.Limit
				l[a] = u
			}
		}
	})
}

// endMutants have a defect in how requests end, and in what is held or banned.
var endMutants = []mutant{
	{
		name: "a release is done twice",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			if isHeld(e.Limit) {
				b.edit(e, func(u *usage, _ int64) {
					if len(u.held) > 0 {
						u.held = u.held[1:]
					}
				})
			}
		},
		caughtBy: []string{
			"units are held until they are returned", "held units count under every limit",
			"each charge of a request releases its own units",
			"concurrency and rates are taken together or not at all",
		},
	},
	{
		name: "nothing is ever released",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			if *out = (limits.Settlement{Returned: e.Taken}); !isHeld(e.Limit) {
				b.ends(e, out)
			}
		},
		caughtBy: []string{
			"units are held until the end, and no longer",
			"a look holds nothing, and a reset releases nothing",
			"never more than the limit is held by many callers at once",
		},
	},
	settling("units that another backend has allowed are held only if they fit", func(b *broken, e *backends.Ending) {
		if isHeld(e.Limit) && e.Final > e.Taken {
			out := make([]limits.Decision, 1)
			look := backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit}
			_ = b.Exact.Peek(context.Background(), []backends.Charge{look}, out)
			e.Final = min(e.Final, e.Taken+out[0].Remaining)
		}
	}, "units that another backend has allowed are held too"),
	settling("all that is held is released, whatever stays held", func(_ *broken, e *backends.Ending) {
		if isHeld(e.Limit) && e.Final < e.Taken {
			e.Final = 0
		}
	}, "units that another backend has allowed are held too"),
	{
		name:      "endings without room for settlements are no error",
		anyLength: true,
		caughtBy:  []string{"endings and settlements have equal length"},
	},
	{
		name: "a reset releases what is held",
		reset: func(b *broken, scope, key string) error {
			b.locked(func(l ledger, _ int64) {
				for _, what := range everyCounted {
					delete(l, account{scope, key, what})
				}
			})
			return nil
		},
		caughtBy: []string{"a look holds nothing, and a reset releases nothing"},
	},
	{
		name: "check first, hold later",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			looks := append([]backends.Charge{}, charges...)
			if err := b.Exact.Peek(context.Background(), looks, out); err != nil {
				return err
			}
			for i, c := range charges {
				if isHeld(c.Limit) && out[i].Allowed && len(charges) == 1 {
					b.pause()
					b.locked(func(l ledger, now int64) {
						a := accountOf(c)
						b.calls++
						u := l[a]
						u.limit = c.Limit
						l[a] = u.plus(now, c.Cost).remembering(u, c, event{ticket: ticket{b.calls, false}})
						out[i].Ticket = ticket{b.calls, false}.number()
					})
					return nil
				}
			}
			return b.exactly(charges, out)
		},
		caughtBy: []string{"never more than the limit is held by many callers at once"},
	},
	{
		name: "what is refunded goes to the window of now",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			if hasWindows(e.Limit) && e.Final < e.Taken {
				b.edit(e, func(u *usage, now int64) {
					if i := u.find(ticketOf(e.Ticket)); i < 0 || now-u.events[i].at >= micros(e.Limit) {
						*u = u.turned(max(now, u.at))
						u.curr = max(0, u.curr-(e.Taken-e.Final))
					}
				})
			}
		},
		caughtBy: []string{
			"units are returned to their own anchored window", "units are returned to their own fixed window",
			"nothing is returned to a later window",
		},
	},
	{
		name: "a period of the calendar owes nothing",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			if e.Limit.Algorithm() == limits.AlgorithmCalendar {
				b.edit(e, func(u *usage, _ int64) { u.debt = 0 })
			}
		},
		caughtBy: []string{
			"what is charged above the maximum is owed to the next month",
			"a month that is not the next owes nothing", "a smaller calendar takes less off what is owed",
		},
	},
	{
		name: "a bucket returns what has drained",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			if !isBucket(e.Limit) || e.Final >= e.Taken {
				b.ends(e, out)
				return
			}
			out.Returned, out.Charged, out.Forgiven = e.Taken-e.Final, 0, 0
			b.edit(e, func(u *usage, now int64) {
				level := u.levelAt(max(now, u.at))
				if level.Sub(level, new(big.Rat).SetInt64(e.Taken-e.Final)); level.Sign() < 0 {
					level = new(big.Rat)
				}
				*u = usage{limit: u.limit, at: max(now, u.at), level: level}
			})
		},
		caughtBy: []string{
			"a leaky queue returns units of its last taking only",
			"a refund is worth the least level that was found since", "a return lowers what others have found",
			"what was taken before the bucket was empty has drained",
			"a bucket returns units that have not drained, and no more", endsExactly,
		},
	},
	{
		name: "a ring forgets when the bucket was empty",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.locked(func(l ledger, now int64) {
				a := accountOf(backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit})
				u, t := l[a], ticketOf(e.Ticket)
				if isBucket(e.Limit) && u.find(t) < 0 && !u.isFresh(now) && e.Final < e.Taken {
					n := min(e.Taken-e.Final, floor(u.level))
					u.level = new(big.Rat).Sub(u.level, new(big.Rat).SetInt64(n))
					u.base, u.events = nil, nil
					l[a], *out = u, limits.Settlement{Returned: n}
					return
				}
				*out = l.settle(now, e, t)
			})
		},
		caughtBy: []string{"a bucket returns units that have not drained, and no more", endsExactly},
	},
	{
		name: "a bucket returns only what it would not have drained since",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.locked(func(l ledger, now int64) {
				a := accountOf(backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit})
				if i := l[a].find(ticketOf(e.Ticket)); isBucket(e.Limit) && i >= 0 && e.Final < e.Taken {
					drained := ceil(ratio(e.Limit.Rate().Units, micros(e.Limit), max(0, l[a].at-l[a].events[i].at)))
					e.Final = min(e.Taken, e.Final+drained)
				}
				*out = l.settle(now, e, ticketOf(e.Ticket))
			})
		},
		caughtBy: []string{
			"a busy bucket returns nearly all unused units",
			"a bucket returns units that have not drained, and no more",
			"a refund leaves a bucket at most 2 µs fuller",
		},
	},
	{
		name: "what has come back by itself is said to be returned",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.locked(func(l ledger, now int64) {
				_, most := l.refundable(now, account{e.Scope, e.Key, countedBy(e.Limit)}, e, ticketOf(e.Ticket))
				if *out = l.settle(now, e, ticketOf(e.Ticket)); most > 0 && !isHeld(e.Limit) {
					out.Returned = most
				}
			})
		},
		caughtBy: []string{
			"a return of the last taking leaves what others took",
			"what has drained is not returned again", "what has left a queue is not returned again",
			"what has faded is not returned again",
			"what a fixed window has taken off is not returned again",
			"what an anchored window has taken off is not returned again", endsExactly,
		},
	},
	{
		name: "a debt is forgotten at the turn of the window",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			b.edit(e, func(u *usage, _ int64) { u.debt = 0 })
		},
		caughtBy: []string{
			"the next anchored window starts at once with what is owed",
			"a smaller anchored window takes less off what is owed",
			"a smaller fixed window takes less off what is owed",
			"what is charged above the maximum is owed to the next window",
			"a return lowers what a fixed window owes", "a return lowers what an anchored window owes",
			"a key owes no more than its maximum", endsExactly,
		},
	},
	{
		name: "a debt has no end",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			if e.Final > e.Taken {
				out.Charged, out.Forgiven = e.Final-e.Taken, 0
			}
		},
		caughtBy: []string{
			"what is charged above the maximum drains first", "a slow bucket owes what drains in 100 years",
			"what a bucket owes drains within 100 years", "a smaller burst leaves what a bucket owes",
			"a key that owes waits for its sliding window to fade",
			"what is charged above the maximum counts in a log as long", "a key owes no more than its maximum",
			endsExactly,
		},
	},
	settling("what is above the estimate is charged only if it fits", func(b *broken, e *backends.Ending) {
		if e.Final > e.Taken && !isHeld(e.Limit) {
			out := make([]limits.Decision, 1)
			look := backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit}
			_ = b.Exact.Peek(context.Background(), []backends.Charge{look}, out)
			e.Final = min(e.Final, e.Taken+out[0].Remaining)
		}
	}, "a charge at the end bans, up to twice the number", "a log may owe as much as its maximum",
		"a smaller log waits for what it owes to leave",
		"a smaller sliding window waits for what it owes to fade", endsExactly, endsBack, endsChanged),
	settling("all that was taken is returned", func(_ *broken, e *backends.Ending) {
		if e.Final < e.Taken {
			e.Final = 0
		}
	}, "units are returned to their own taking of a log",
		"units are returned to this sliding window and the one before",
		"units are returned to their own month", "a window stays where its first request has opened it",
		"a refund lifts the ban that it undoes", "unused units return to where they were taken",
		"many requests at once are charged exactly their final costs"),
	{
		name: "an end under an old limit starts the key anew",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.locked(func(l ledger, _ int64) {
				a := accountOf(backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit})
				if u := l[a]; u.limit.Algorithm() != e.Limit.Algorithm() {
					delete(l, a)
				}
			})
			b.ends(e, out)
		},
		caughtBy: []string{"the end of a taking that is gone changes nothing", endsChanged},
	},
	{
		name: "a denial prolongs a ban",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			b.locked(func(l ledger, now int64) {
				for i, c := range charges {
					if u, ok := l[accountOf(c)]; ok && err == nil && isBan(c.Limit) && !out[i].Allowed {
						u.until = now + c.Limit.Lasting().Microseconds()
						l[accountOf(c)] = u
					}
				}
			})
			return err
		},
		caughtBy: []string{
			"the charge that reaches the number is allowed and bans",
			"one charge at a time is decided as by the definitions",
		},
	},
	telling("a ban lets a cost of 0 pass", func(c backends.Charge, d *limits.Decision) {
		if isBan(c.Limit) && c.Cost == 0 && !d.Allowed {
			d.Allowed, d.RetryAfter = true, 0
		}
	}, "the charge that reaches the number is allowed and bans"),
	{
		name: "a new ban starts over what was counted",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, _ int64) {
				for _, c := range charges {
					if u := l[accountOf(c)]; isBan(c.Limit) && u.limit != c.Limit {
						delete(l, accountOf(c))
					}
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"a lower number bans until the ban that has begun ends",
			"a changed ban keeps its count and its end",
		},
	},
	{
		name: "what a former limit counted lasts as under the new one",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.relimit(charges)
			return b.exactly(charges, out)
		},
		caughtBy: []string{"a changed ban brings back nothing that is over"},
	},
	{
		name: "no unit of a rate is returned",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			if *out = (limits.Settlement{}); !isRate(e.Limit) || e.Final > e.Taken {
				b.ends(e, out)
			}
		},
		caughtBy: []string{"what has left a log is not returned again",
			"unused units return to where they were taken"},
	},
	{
		name: "no refund lifts a ban",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			banned := false
			b.edit(e, func(u *usage, _ int64) { banned = u.until != 0 })
			if *out = (limits.Settlement{}); !banned || e.Final > e.Taken {
				b.ends(e, out)
			}
		},
		caughtBy: []string{
			"a return lifts a ban long after the period", "a refund lifts the ban that it undoes",
			"a return of the first taking leaves the start of the period",
		},
	},
	{
		name: "new keys inherit a ban",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				if b.taken[c.Scope]++; b.maxKeys > 0 && isBan(c.Limit) && b.taken[c.Scope] > b.maxKeys {
					out[i].Allowed, out[i].RetryAfter = false, c.Limit.Lasting()
				}
			}
			return err
		},
		caughtBy: []string{"no key inherits a ban"},
	},
	{
		name: "a step back of the clock leaves no more than the number in use",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, now int64) {
				for a, u := range l {
					if u.at-now > maxStepBack(u.limit) {
						u.curr, u.debt = min(u.curr, u.limit.Burst()), 0
						u.takings = u.takings[max(0, len(u.takings)-int(u.limit.Burst())):]
						l[a] = u
					}
				}
			})
			b.relimit(charges)
			return b.exactly(charges, out)
		},
		caughtBy: []string{
			"what a window owes it owes after a long step back, too",
			"a smaller number in between forgets no value when the clock steps far back",
		},
	},
	{
		name: "an end charges nothing after another limit has looked",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			changed := false
			b.edit(e, func(u *usage, _ int64) { changed = !sameCounting(u.limit, e.Limit) })
			if changed && e.Final > e.Taken {
				*out = limits.Settlement{Forgiven: e.Final - e.Taken}
				return
			}
			b.ends(e, out)
		},
		caughtBy: []string{"a request under the limit in force is charged at its end after two changes"},
	},
	{
		name: "the end of a charge with a value does nothing",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			if *out = (limits.Settlement{}); !e.Limit.Algorithm().CountsValues() {
				b.ends(e, out)
			}
		},
		caughtBy: []string{"a charge that cost nothing in the end leaves no new value"},
	},
	{
		name: "a limit forgets what limits of other kinds have counted",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, _ int64) {
				for _, c := range charges {
					for _, what := range everyCounted {
						if what != countedBy(c.Limit) {
							delete(l, account{c.Scope, c.Key, what})
						}
					}
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{"limits that do not count alike count apart"},
	},
	{
		name: "a reset forgets what rates have counted alone",
		reset: func(b *broken, scope, key string) error {
			b.locked(func(l ledger, _ int64) { delete(l, account{scope, key, unitsOfRates}) })
			return nil
		},
		caughtBy: []string{"a reset makes a key fresh under every kind of limit"},
	},
	{
		name: "keys that were displaced under any limit deny new keys of a ban",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				b.taken["all scopes"]++
				if b.maxKeys > 0 && isBan(c.Limit) && b.taken["all scopes"] > b.maxKeys {
					out[i].Remaining = max(0, out[i].Remaining-1)
				}
			}
			return err
		},
		caughtBy: []string{"what a full store has displaced is remembered for its kind alone"},
	},
	{
		name: "a shadow of a banned key denies the request",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			charges = append([]backends.Charge{}, charges...)
			for i := range charges {
				charges[i].Shadow = charges[i].Shadow && !isBan(charges[i].Limit)
			}
			return b.exactly(charges, out)
		},
		caughtBy: []string{"a banned key denies the request and takes nothing elsewhere"},
	},
	{
		name: "what is held counts under each limit apart",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			b.locked(func(l ledger, _ int64) {
				for _, c := range charges {
					a := accountOf(c)
					if other, ok := b.limits[a]; ok && other != c.Limit && a.counted == unitsHeld {
						delete(l, a)
					}
					b.limits[a] = c.Limit
				}
			})
			return b.exactly(charges, out)
		},
		caughtBy: []string{"held units count under every limit"},
	},
	{
		name: "a rate is taken when concurrency denies",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				if err == nil && isHeld(c.Limit) && !out[i].Allowed {
					for _, other := range charges {
						if !isHeld(other.Limit) {
							_ = b.exactly([]backends.Charge{other}, make([]limits.Decision, 1))
						}
					}
				}
			}
			return err
		},
		caughtBy: []string{"concurrency and rates are taken together or not at all"},
	},
}
