package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestConcurrent(t *testing.T) {
	for name, table := range map[string]string{
		"units are held until they are returned": `
			0s    take 3                -> allowed, in use 3, reset 0s, wait 1s
			0s    take 2                -> allowed, in use 5, reset 0s, wait 1s
			0s    take 1                -> denied, in use 5, reset 0s, wait 1s
			1000h take 1                -> denied, in use 5, reset 0s, wait 1s
			1001h take 0                -> allowed, in use 5, reset 0s, wait 1s
			1001h take 6                -> denied, in use 5, reset 0s, wait never
			1002h return 2 of 3 from 0s -> returned 2, in use 3, reset 0s, wait 1s
			1002h return 9 of 9 from 0s -> returned 3, in use 0, reset 0s, wait 1s`,
		"any number of units is charged": `
			0s take 4                     -> allowed, in use 4, reset 0s, wait 1s
			0s charge 20                  -> charged 20, in use 24, reset 0s, wait 1s
			0s take 1                     -> denied, in use 24, reset 0s, wait 1s
			0s charge 9223372036854775807 -> charged 9223372036854775783, in use 9223372036854775807, reset 0s, wait 1s
			0s take 1                     -> denied, in use 9223372036854775807, reset 0s, wait 1s
			0s take 0                     -> allowed, in use 9223372036854775807, reset 0s, wait 1s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limits.Concurrent(5), table) })
	}
}

func TestConcurrentByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: func(_ *key, h history, _ int64) (used int64) {
			for _, one := range h {
				used += one.left
			}
			return used
		},
	}, func(random *rand.Rand) limits.Limit { return limits.Concurrent(1 + random.Int64N(12)) })
}
