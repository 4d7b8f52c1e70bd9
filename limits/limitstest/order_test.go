package limitstest

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// access is a call on a register: it reads value, or writes it.
type access struct {
	lifetime
	writes bool
	value  int
}

// stepOf returns what accesses do to a register.
func stepOf(calls []access) func(int, int) (int, bool) {
	return func(held, i int) (int, bool) {
		if calls[i].writes {
			return calls[i].value, true
		}
		return held, held == calls[i].value
	}
}

// ordersOf calls f with every order of n calls, and before with its beginnings. It leaves out those that
// begin with one for which f returns false.
func ordersOf(n int, order []int, f func([]int) bool) {
	if !f(order) {
		return
	}
	for i := range n {
		if !slices.Contains(order, i) {
			ordersOf(n, append(slices.Clip(order), i), f)
		}
	}
}

// mayBe reports whether calls may have taken effect in an order, and those that it lacks after it.
func mayBe(calls []access, order []int) bool {
	for at, i := range order {
		for j := range calls {
			if !slices.Contains(order[:at+1], j) && calls[j].end < calls[i].begin {
				return false
			}
		}
	}
	return true
}

func TestTheLongestOrderIsFound(t *testing.T) {
	random := testrun.Random(t)
	explained := 0
	for range testrun.Sized(2_000, 50_000) {
		n := 1 + random.IntN(6)
		calls := make([]access, n)
		spans := make([]lifetime, n)
		instants := random.Perm(2 * n)
		for i := range calls {
			a, b := int64(instants[2*i]), int64(instants[2*i+1])
			spans[i] = lifetime{min(a, b), max(a, b)}
			calls[i] = access{spans[i], random.IntN(2) == 0, random.IntN(3)}
		}
		step := stepOf(calls)
		follow := func(order []int) bool { // whether each is told what it was told
			held, ok := 0, true
			for _, i := range order {
				if held, ok = step(held, i); !ok {
					return false
				}
			}
			return mayBe(calls, order)
		}
		want := 0
		ordersOf(n, nil, func(order []int) bool {
			ok := follow(order)
			if ok {
				want = max(want, len(order))
			}
			return ok
		})
		got := longestOrder(spans, 0, step, func(a, b int) bool { return a == b })
		if len(got) != want || !follow(got) {
			t.Fatalf("%+v: order %v, want one of %d calls that explains them", calls, got, want)
		}
		if want == n {
			explained++
		}
	}
	t.Logf("%d histories are explained", explained)
}

// Each of these calls may come before or after each other, and none of the orders explains the last: without
// the memory of what was tried there would be 16! of them.
func TestAnOrderIsNotSoughtTwice(t *testing.T) {
	const n = 17
	spans := make([]lifetime, n)
	for i := range spans {
		spans[i] = lifetime{int64(i), int64(100 + i)}
	}
	tried := 0
	got := longestOrder(spans, 0, func(sum, i int) (int, bool) {
		tried++
		return sum + 1, i < n-1
	}, func(a, b int) bool { return a == b })
	if most := n << (n - 1); len(got) != n-1 || tried > most {
		t.Errorf("an order of %d calls after %d steps, want %d after at most %d", len(got), tried, n-1, most)
	}
}
