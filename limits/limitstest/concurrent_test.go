package limitstest

import (
	"context"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
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
	}...)
}
