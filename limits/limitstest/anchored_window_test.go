package limitstest

import (
	"context"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
		asking("an anchored window is a fixed one", func(_ *broken, c *backends.Charge) {
			if c.Limit.Algorithm() == limits.AlgorithmAnchoredWindow {
				c.Limit = limits.FixedWindow(c.Limit.Rate())
			}
		}, "an anchored window opens with the first taking and closes a period later",
			"anchored windows work within a millisecond, over 366 days and in the year 2200",
			"a fixed window becomes an anchored one and a fixed one again",
			"one charge at a time is decided as by the definitions"),
		{
			name: "an anchored window moves with each taking",
			take: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				err := b.exactly(charges, out)
				b.locked(func(l ledger, now int64) {
					for i, c := range charges {
						a := accountOf(c)
						if u := l[a]; err == nil && out[i].Allowed && c.Cost > 0 && u.limit == c.Limit &&
							u.limit.Algorithm() == limits.AlgorithmAnchoredWindow {
							u.at = max(u.at, now)
							l[a] = u
						}
					}
				})
				return err
			},
			caughtBy: []string{
				"an anchored window opens with the first taking and closes a period later",
				"an anchored window can be timed for two budgets",
				"an anchored window of the same period keeps its start and its count",
				"one charge at a time is decided as by the definitions",
			},
		},
		{
			name:     "a denial opens an anchored window",
			take:     opening(func(_ backends.Charge, d limits.Decision) bool { return !d.Allowed }),
			caughtBy: []string{"an anchored window opens with the first taking and closes a period later"},
		},
		{
			name: "a look opens an anchored window",
			take: opening(func(c backends.Charge, _ limits.Decision) bool { return c.Cost == 0 }),
			caughtBy: []string{"an anchored window opens with the first taking and closes a period later",
				"one charge at a time is decided as by the definitions"},
		},
		{
			name: "a peek opens an anchored window",
			take: opening(func(backends.Charge, limits.Decision) bool { return false }),
			peek: func(b *broken, charges []backends.Charge, out []limits.Decision) error {
				err := b.Exact.Peek(context.Background(), charges, out)
				b.open(charges, out, func(backends.Charge, limits.Decision) bool { return true })
				return err
			},
			caughtBy: []string{"a peek answers like a take and takes nothing"},
		},
	}...)
}

// opening takes, and has the window of a key that has none open with a charge that
// takes nothing, if opens says so.
func opening(opens func(backends.Charge, limits.Decision) bool) func(
	*broken, []backends.Charge, []limits.Decision) error {
	return func(b *broken, charges []backends.Charge, out []limits.Decision) error {
		err := b.exactly(charges, out)
		b.open(charges, out, opens)
		return err
	}
}

// open remembers when windows opened too early, and moves those that have opened
// since.
func (b *broken) open(charges []backends.Charge, out []limits.Decision,
	opens func(backends.Charge, limits.Decision) bool) {
	b.locked(func(l ledger, now int64) {
		for i, c := range charges {
			if c.Limit.Algorithm() != limits.AlgorithmAnchoredWindow || out[i] == (limits.Decision{}) {
				continue
			}
			a := accountOf(c)
			u, live := l[a]
			early, found := b.until[a]
			switch {
			case found && now-early >= micros(c.Limit):
				delete(b.until, a)
			case found && live && u.limit == c.Limit && u.at == now && u.curr > 0:
				u.at = early
				l[a] = u
			case !found && (!live || u.isFresh(now)) && opens(c, out[i]):
				b.until[a] = now
			}
		}
	})
}
