package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// floodedStore is full of keys of so many scopes, each of which has used all of its limit.
func floodedStore(t *testing.T, scopes int, take func(m *memory.Memory, scope, key string)) *memory.Memory {
	t.Helper()
	const maxKeys = 1 << 10 // one shard, whose floors all keys share
	noon := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: maxKeys, Clock: func() time.Time { return noon }})
	for i := range 10 * maxKeys {
		take(m, fmt.Sprint("flooded ", i%scopes), fmt.Sprint(i))
	}
	return m
}

func TestAFloodOfSomeScopesLeavesMostOthersAlone(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerDay(10), 10), limits.FixedWindow(limits.PerDay(10)),
		limits.SlidingLog(limits.PerDay(10)),
	} {
		for _, test := range []struct{ scopes, most int }{{1, 0}, {40, 0}, {60, 500}} {
			m := floodedStore(t, test.scopes, func(m *memory.Memory, scope, key string) {
				asking.Take(t, m, backends.Charge{Scope: scope, Key: key, Limit: limit, Cost: 10})
			})
			denied := 0
			const others = 1000 // the hash of 150 falls on one of the nine floors that are shared
			for i := range others {
				if !asking.Take(t, m, backends.Charge{Scope: fmt.Sprint(i), Key: "new", Limit: limit, Cost: 1}).Allowed {
					denied++
				}
			}
			if denied > test.most {
				t.Errorf("%v: a flood over %d scopes denies new keys of %d in %d others, want at most %d", limit,
					test.scopes, denied, others, test.most)
			}
		}
	}
}

func TestAFloodOfAnyNumberOfScopesBuysNoFreshBudget(t *testing.T) {
	limit, ban := limits.FixedWindow(limits.PerDay(10)), limits.Ban(limits.PerDay(10), time.Hour)
	for _, scopes := range []int{1, 51, 52, 60, 300} {
		all := make([][2]string, 0, 1<<14)
		m := floodedStore(t, scopes, func(m *memory.Memory, scope, key string) {
			all = append(all, [2]string{scope, key})
			asking.Take(t, m, backends.Charge{Scope: scope, Key: key, Limit: limit, Cost: 10})
		})
		for i := range 2000 { // another kind of counting, whose floors say nothing of this one
			asking.Take(t, m, backends.Charge{Scope: all[i][0], Key: fmt.Sprint(i), Limit: ban, Cost: 1})
		}
		for _, k := range all {
			if asking.Take(t, m, backends.Charge{Scope: k[0], Key: k[1], Limit: limit, Cost: 1}).Allowed {
				t.Fatalf("%d scopes: key %s of %q is allowed 11 of 10", scopes, k[1], k[0])
			}
		}
	}
}

func TestAStoreOfFewScopesPaysForNoSharedFloor(t *testing.T) {
	limit := limits.FixedWindow(limits.PerDay(10))
	m := floodedStore(t, 51, func(m *memory.Memory, scope, key string) {
		asking.Take(t, m, backends.Charge{Scope: scope, Key: key, Limit: limit, Cost: 10})
	})
	if bytes := memory.Summary(m); bytes == 0 || bytes > 4096 {
		t.Errorf("%d bytes of summaries for 51 scopes, want at most 4,096", bytes)
	}
}
