package limitstest

import (
	"math/big"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
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
		telling("ResetAfter counts a full bucket", func(c backends.Charge, d *limits.Decision) {
			if isBucket(c.Limit) && d.ResetAfter > 0 {
				d.ResetAfter = duration(ceil(ratio(c.Limit.Burst(), c.Limit.Rate().Units, micros(c.Limit))))
			}
		}, "after ResetAfter a key is as never charged", "a large burst drains over 100 years",
			"rates with no common factor stay exact"),
		telling("a leaky queue does not tell its delay", func(_ backends.Charge, d *limits.Decision) { d.Delay = 0 },
			"a leaky queue tells each request how long to wait", "a leaky queue rounds its delay up",
			"a leaky queue adds the step to its delay"),
		telling("a leaky queue rounds its delay down", func(c backends.Charge, d *limits.Decision) {
			if d.Delay%sec != 0 {
				d.Delay -= us
			}
		}, "a leaky queue rounds its delay up", "groups are decided as by the definitions"),
		telling("a look has a delay", func(c backends.Charge, d *limits.Decision) {
			if c.Cost == 0 && c.Limit.Algorithm().Delays() {
				d.Delay = d.ResetAfter
			}
		}, "a leaky queue tells each request how long to wait", "a cost of 0 is always allowed and takes nothing"),
		{
			name: "a smaller burst lowers the level",
			take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				b.locked(func(l ledger, _ int64) {
					for _, c := range charges {
						a := accountOf(c)
						if u, ok := l[a]; ok && isBucket(c.Limit) && sameCounting(u.limit, c.Limit) {
							if most := new(big.Rat).SetInt64(c.Limit.Burst()); u.level.Cmp(most) > 0 {
								u.level = most
								l[a] = u
							}
						}
					}
				})
				return b.exactly(charges, out)
			},
			caughtBy: []string{"a smaller burst leaves the level as it is", "limits that alternate give nothing away",
				"a change of limit leaves the units in use as they are"},
		},
	}...)
}
