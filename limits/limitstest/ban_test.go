package limitstest

import (
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
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
	}...)
}
