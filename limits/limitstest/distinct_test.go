package limitstest

import (
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
		asking("a value leaves a period after it was first seen", func(b *broken, c *backends.Charge) {
			b.locked(func(l ledger, now int64) {
				if u, x := l[accountOf(*c)].foundBy(c.Limit, now); countsValues(*c) && u.has(c.Value, x) {
					c.Cost = 0
				}
			})
		}, "a value costs a unit when it is new, and nothing while it is known",
			"a value that keeps being used keeps its place",
			"random values are decided as by the definitions"),
		{
			name: "each request takes a unit, whatever its value",
			take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				charges = append([]backends.Charge{}, charges...)
				b.locked(func(ledger, int64) {
					b.taken["values"]++
					for i := range charges {
						charges[i].Value = uint64(b.taken["values"])
					}
				})
				return b.exactly(charges, out)
			},
			caughtBy: []string{
				"a value costs a unit when it is new, and nothing while it is known",
				"no more values are admitted than the limit by those who ask at once",
				"a thousand values are exact",
			},
		},
		asking("a value has 32 bits", func(_ *broken, c *backends.Charge) { c.Value &= 1<<32 - 1 },
			"values are those of their key", "random values are decided as by the definitions"),
		{
			name: "a denied request keeps its value",
			take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				err := b.exactly(charges, out)
				for _, d := range out {
					for _, c := range charges {
						if err == nil && !d.Allowed && countsValues(c) {
							_ = b.exactly([]backends.Charge{c}, make([]limits.Decision, 1))
						}
					}
				}
				return err
			},
			caughtBy: []string{"a denied request leaves no value and prolongs none"},
		},
		asking("a changed limit knows no values", func(b *broken, c *backends.Charge) {
			b.locked(func(l ledger, _ int64) {
				if countsValues(*c) && l[accountOf(*c)].limit != c.Limit {
					delete(l, accountOf(*c))
				}
			})
		}, "values count apart from units"),
		{
			name: "the first value of a key in a group is that of the others",
			take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				charges = append([]backends.Charge{}, charges...)
				for i := range charges {
					charges[i].Value = charges[0].Value
				}
				return b.exactly(charges, out)
			},
			caughtBy: []string{"two values of one key in a group are an error"},
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
	}...)
}

func countsValues(c backends.Charge) bool { return c.Limit.Algorithm().CountsValues() }
