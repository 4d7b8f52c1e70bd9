package limitstest

import (
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
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
		asking("a month of the calendar lasts 31 days", func(_ *broken, c *backends.Charge) {
			if c.Limit.Algorithm() == limits.AlgorithmCalendar {
				c.Limit = limits.FixedWindow(c.Limit.Rate())
			}
		}, "a month of the calendar ends with the month", "weeks and years begin on their days",
			"the calendar is known in 1970 and in 2254",
			"another number of units keeps the period and its count", "one charge at a time is decided as by the definitions"),
		asking("a calendar knows no zones", func(_ *broken, c *backends.Charge) {
			if c.Limit.Algorithm() == limits.AlgorithmCalendar {
				c.Limit = limits.Calendar(c.Limit.Rate().Units, c.Limit.Period().In("UTC"))
			}
		}, "days of a zone last 23 and 25 hours", "a day is begun once where clocks go back over midnight",
			"a month in a zone begins with the zone's day"),
		asking("a month from the 31st begins on the 1st of the next", func(_ *broken, c *backends.Charge) {
			if c.Limit.Algorithm() == limits.AlgorithmCalendar && c.Limit.Period() == limits.Month.From(31) {
				c.Limit = limits.Calendar(c.Limit.Rate().Units, limits.Month)
			}
		}, "a month from the 31st begins on the last day of shorter months"),
		{
			name: "a period of the calendar starts empty with every change of its units",
			take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				b.locked(func(l ledger, now int64) {
					for _, c := range charges {
						if u := l[accountOf(c)]; u.limit != c.Limit && u.limit.Algorithm() == limits.AlgorithmCalendar {
							delete(l, accountOf(c))
						}
					}
				})
				return b.exactly(charges, out)
			},
			caughtBy: []string{"another number of units keeps the period and its count",
				"another period counts the units in use as taken now"},
		},
	}...)
}
