package limitstest

import (
	"context"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// rows makes a mutant that changes what rows of bans are before or after a charge: of each account
// it gets the usage before and after, and whether the charge was allowed.
func rows(name string, change func(before, after *usage, c backends.Charge, allowed bool),
	caughtBy ...string) mutant {
	return mutant{
		name: name,
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			var before []usage
			b.locked(func(l ledger, _ int64) {
				for _, c := range charges {
					before = append(before, l[accountOf(c)])
				}
			})
			err := b.exactly(charges, out)
			b.locked(func(l ledger, _ int64) {
				for i, c := range charges {
					if u, ok := l[accountOf(c)]; ok && err == nil && isGrowing(u.limit) {
						change(&before[i], &u, c, out[i].Allowed)
						l[accountOf(c)] = u
					}
				}
			})
			return err
		},
		caughtBy: caughtBy,
	}
}

func init() { mutants = append(mutants, growingMutants...) }

// growingMutants have a defect in how bans grow.
var growingMutants = []mutant{
	rows("a row of bans lasts a microsecond longer", func(_, after *usage, c backends.Charge, _ bool) {
		if after.until != 0 && c.Cost > 0 {
			after.own = row{rowOf(*after).bans, after.until + 1}
		}
	}, "a row of bans is over after the longest ban"),
	rows("a denial makes the next ban longer", func(_, after *usage, _ backends.Charge, allowed bool) {
		if !allowed {
			after.own = row{rowOf(*after).bans + 1, after.until}
		}
	}, "each ban of a row is twice as long, up to the longest"),
	rows("a changed limit starts the row anew",
		func(before, after *usage, _ backends.Charge, _ bool) {
			if rowOf(*before).bans > 0 && before.limit != after.limit && after.until != 0 {
				after.own = row{1, after.until}
			}
		}, "a changed limit keeps the place in the row"),
	rows("a plain ban is the second of a row", func(before, after *usage, _ backends.Charge, _ bool) {
		if isBan(before.limit) && !isGrowing(before.limit) && after.until != 0 {
			after.own = row{2, after.until}
		}
	}, "a ban that does not grow forgets the row"),
	rows("a step back of the clock forgets the row", func(before, after *usage, _ backends.Charge, _ bool) {
		if before.at > after.at {
			after.own = row{1, after.until}
		}
	}, "a ban that has begun begins again after a long step back"),
	{
		name: "bans by what a request cost in the end do not grow",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.ends(e, out)
			b.edit(e, func(u *usage, now int64) {
				if isGrowing(u.limit) && out.Charged > 0 && u.until != 0 {
					u.until = now + u.limit.Lasting().Microseconds()
				}
			})
		},
		caughtBy: []string{"a charge at the end bans, and bans grow"},
	},
	{
		name: "a return after the ban takes it out of the row",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			b.edit(e, func(u *usage, now int64) {
				if isGrowing(u.limit) && e.Final < e.Taken && u.until != 0 && u.isOver(now) {
					u.own = row{}
				}
			})
			b.ends(e, out)
		},
		caughtBy: []string{"nothing is returned of a ban that has ended"},
	},
	{
		name: "a lifted ban stays in the row",
		settle: func(b *broken, e backends.Ending, out *limits.Settlement) {
			bans := int64(0)
			b.edit(e, func(u *usage, _ int64) { bans = rowOf(*u).bans })
			b.ends(e, out)
			b.edit(e, func(u *usage, now int64) {
				if rowOf(*u).bans < bans {
					u.own = row{bans, now}
				}
			})
		},
		caughtBy: []string{"a ban that is lifted leaves the row"},
	},
	{
		name: "a reset forgets the ban, and not the row",
		reset: func(b *broken, scope, key string) error {
			a := account{scope, key, unitsOfBans}
			var found usage
			b.locked(func(l ledger, _ int64) { found = l[a] })
			err := b.Exact.Reset(context.Background(), scope, key)
			b.locked(func(l ledger, now int64) {
				if isGrowing(found.limit) {
					found.own = row{rowOf(found).bans, now}
					found.curr, found.until, found.at = 0, 0, now
					l[a] = found
				}
			})
			return err
		},
		caughtBy: []string{"a reset forgets the row of bans"},
	},
	{
		name: "new keys inherit a row of bans",
		take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
			err := b.exactly(charges, out)
			for i, c := range charges {
				if b.taken[c.Scope]++; b.maxKeys > 0 && isGrowing(c.Limit) && b.taken[c.Scope] > b.maxKeys {
					out[i].ResetAfter *= 2
				}
			}
			return err
		},
		caughtBy: []string{"no key inherits a row of bans"},
	},
}
