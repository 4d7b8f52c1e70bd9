package limitstest

import (
	"context"
	"slices"

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

// editLoans changes all lent units.
func (b *broken) editLoans(change func(*hold)) {
	b.locked(func(l ledger, _ int64) {
		for _, u := range l {
			for i := range u.held {
				if u.held[i].end > 0 {
					change(&u.held[i])
				}
			}
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
		name:      "endings without room for settlements are no error",
		anyLength: true,
		caughtBy:  []string{"endings and settlements have equal length"},
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
		name: "lent units never end by themselves",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			b.editLoans(func(h *hold) { h.end = 1 << 62 })
			return err
		},
		caughtBy: []string{"lent units are held until they come back or end",
			"a holder that takes more has all until the last end"},
	},
	{
		name: "who returns lent units does not matter",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.editLoans(func(h *hold) { h.holder = e.Value })
			b.ends(e, out)
		},
		caughtBy: []string{"a holder returns what it has, and no more",
			"a denied request borrows nothing", "lent units are those of their definition"},
	},
	{
		name: "without a holder the first that were taken come back",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.edit(e, func(u *usage, _ int64) { slices.Reverse(u.held) })
			b.ends(e, out)
			b.edit(e, func(u *usage, _ int64) { slices.Reverse(u.held) })
		},
		caughtBy: []string{"without a holder the last that were taken come back"},
	},
	{
		name: "what was returned is lent twice",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			if e.Lends > 0 {
				b.editLoans(func(h *hold) { h.units = max(0, h.units-e.Taken) })
			}
		},
		caughtBy: []string{"never more is lent than the limit"},
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
}
