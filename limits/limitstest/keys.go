package limitstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

var keyCases = []testCase{
	{
		name: "scope and key are never joined so that two pairs collide",
		why: "every pair of scope and key has a state of its own: empty, long, with separators, NUL " +
			"and bytes that are not UTF-8; joined with a separator, (\"a_b\",\"c\") is " +
			"(\"a\",\"b_c\") (DESIGN 4, Charge)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			limit := plain(limits.PerDay(1_000_000_000))
			pairs := trickyPairs()
			for i, p := range pairs {
				cost := int64(i + 1)
				w.expect("charging an pair of its own",
					[]backends.Charge{{Scope: p.scope, Key: p.key, Limit: limit, Cost: cost}},
					allowed(1_000_000_000-cost, day, day))
			}
			for i, p := range pairs {
				w.expect("looking at it", []backends.Charge{{Scope: p.scope, Key: p.key, Limit: limit}},
					allowed(1_000_000_000-int64(i+1), day, day))
			}
		},
	},
	{
		name: "no key is forgotten while it is live",
		why: "a backend that has room for a key keeps its state until it is fresh: neither a sweep " +
			"nor an eviction hands out a fresh budget (DESIGN 6)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			choices := h.limits.rates(limits.PerHour(2))
			charge := func(i int) backends.Charge {
				return backends.Charge{Scope: "s", Key: fmt.Sprint("user ", i), Limit: choices[i%len(choices)],
					Cost: 2}
			}
			n := h.Decisions / 10
			for i := range n {
				if !w.take(charge(i))[0].Allowed {
					t.Fatalf("key %d of %d was denied its first charge", i, n)
				}
			}
			w.clock.advance(30*mins - 1*us)
			for i := range n {
				if d := w.take(charge(i))[0]; d.Allowed || d.Remaining > 0 {
					t.Fatalf("key %d of %d lost its state: %s", i, n, showDecision(d))
				}
			}
		},
	},
}

type pair struct{ scope, key string }

// trickyPairs returns distinct pairs that are easily confused.
func trickyPairs() []pair {
	pairs := []pair{
		{"", ""}, {"", "abc"}, {"a", "bc"}, {"ab", "c"}, {"abc", ""},
		{"b", "a"}, {"a", "b"}, {"a", "a"}, {"aa", ""}, {"", "aa"},
		{"A", "b"}, {"a", "B"}, {"a", " b"}, {"a ", "b"}, {"a", "b "},
		{"0", ""}, {"", "0"}, {"0", "0"}, {"00", ""}, {"1", "10"}, {"11", "0"}, {"1", "1:0"},
		{"3:a", "b"}, {"1:a", "1:b"},
		{"é", ""}, {"e\u0301", ""}, {"\xe9", ""}, {"\xff", ""}, {"\xff\xfe", ""}, {"\xfe\xff", ""},
		{"", "\xff"}, {"\uFFFD", ""}, {"", "\xc3\x28"},
		{"\n", ""}, {"\r\n", ""}, {"", "\r\n"}, {"*", ""}, {"", "*"}, {"$1", "%s"}, {"%73", "s"},
		{"%", "73s"},
	}
	for _, separator := range []string{":", "_", "|", "/", "\\", ".", ",", "-", "#", "{", "}", "\x00",
		"\x1f", "\xff", " ", "\t", "\n"} {
		pairs = append(pairs,
			pair{"x" + separator + "y", "z"}, pair{"x", "y" + separator + "z"},
			pair{"x" + separator, "yz"}, pair{"xy", separator + "z"},
			pair{separator, ""}, pair{"", separator},
			pair{"x" + separator + separator + "y", "z"}, pair{"x\\" + separator + "y", "z"},
			pair{fmt.Sprintf("x%%%02xy", separator), "z"}, pair{fmt.Sprintf("x%%%02Xy", separator), "z"},
			pair{"{x" + separator + "y}", "z"}, pair{"{x}", separator + "{y}"})
	}
	for _, n := range []int{31, 32, 33, 63, 64, 255, 256, 257, 65_535, 65_536, 100_000} {
		long := strings.Repeat("k", n)
		pairs = append(pairs, pair{"", long}, pair{long, ""}, pair{"s", long + "1"},
			pair{"s", long + "2"},
			pair{"1" + long, "s"}, pair{"2" + long, "s"})
	}
	distinct := map[pair]bool{}
	kept := pairs[:0]
	for _, p := range pairs {
		if !distinct[p] {
			kept = append(kept, p)
		}
		distinct[p] = true
	}
	return kept
}
