package limitstest

import (
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	mutants = append(mutants, []mutant{
		{
			name:     "entries of logs are never free again",
			take:     starving(func(b *broken, c backends.Charge) bool { return b.taken[c.Scope] > 20_000 }),
			caughtBy: []string{"clients that have left cost others no denial"},
		},
		{
			name: "the logs of one scope take from those of another",
			take: starving(func(b *broken, c backends.Charge) bool {
				return b.taken["heavy"] > 20_000 && c.Scope != "heavy"
			}),
			caughtBy: []string{"long logs of one scope cost no denial in another"},
		},
		{
			name: "entries of logs are never free again once the clock has stepped back",
			take: starving(func(b *broken, c backends.Charge) bool {
				return b.maxKeys > 0 && b.taken[c.Scope] > 1000 && b.now().Before(newYear)
			}),
			caughtBy: []string{"logs from before a step of the clock cost no denial"},
		},
	}...)
}
