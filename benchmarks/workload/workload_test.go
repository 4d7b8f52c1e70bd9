package workload_test

import (
	"net/netip"
	"testing"

	"github.com/weir-go/weir/benchmarks/workload"
)

func TestKeysAreDistinctAddresses(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 100_000 {
		key := workload.NewKey(i)
		if addr, err := netip.ParseAddr(key); err != nil || addr.String() != key {
			t.Fatalf("key %d: got %q, want an address in its usual form", i, key)
		}
		if seen[key] {
			t.Fatalf("key %d: %q comes twice", i, key)
		}
		seen[key] = true
	}
}

func TestASequenceOfOneKeyAsksForThat(t *testing.T) {
	if s := workload.Of("held"); s.Len() != 1 || s.Key(0) != "held" {
		t.Errorf("got %d keys, the first %q, want held alone", s.Len(), s.Key(0))
	}
}

func TestSequencesAskForTheKeysTheyAreOver(t *testing.T) {
	const n = 1000
	known := make(map[string]bool)
	for i := range n {
		known[workload.NewKey(i)] = true
	}
	for name, s := range map[string]*workload.Sequence{
		"one": workload.One(), "uniform": workload.Uniform(n), "zipf": workload.Zipf(n),
	} {
		asked := make(map[string]int)
		for i := range s.Len() {
			if !known[s.Key(i)] {
				t.Fatalf("%s: key %d is %q, which is none of the %d", name, i, s.Key(i), n)
			}
			asked[s.Key(i)]++
		}
		want := n
		if name == "one" {
			want = 1
		}
		if len(asked) != want {
			t.Errorf("%s: got %d different keys, want %d", name, len(asked), want)
		}
	}
}
