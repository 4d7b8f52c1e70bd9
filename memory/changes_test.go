package memory

import "testing"

func TestAChangeIsSweptWhenNoLimitStartsFromIt(t *testing.T) {
	table := table{buckets: make([]tableBucket, 100), ref: new(tableRef)}
	var cs changes
	const now, lasts = 10, 100
	store := func(hash uint64, until int64, taken bool) {
		s := state{a: 1}
		if bucket := &table.buckets[firstHome(hash, 100)]; hash != 7 { // the key of 7 has no state
			bucket[0] = entry{hash: hash, state: s}
		}
		if taken {
			s.a = 2
		}
		cs.store(hash, change{until: until, state: s}, &table, now)
	}
	at := func(i uint64) uint64 { return i*(1<<32/100) + 1<<20 } // the i-th bucket
	store(at(1), lasts, false)
	store(at(2), now, false)  // it ends now
	store(at(3), lasts, true) // its units were taken since
	store(7, lasts, false)
	for i := range uint64(60) {
		store(at(10+i), lasts, false)
	}
	if n := len(cs.byHash); n != 64 {
		t.Fatalf("%d changes before the sweep, want 64", n)
	}
	store(at(90), lasts, false)
	if n := len(cs.byHash); n != 62 {
		t.Errorf("%d changes after the sweep, want 62", n)
	}
	for _, i := range []uint64{1, 10, 69, 90} {
		if _, ok := cs.of(table.find(at(i)), now); !ok {
			t.Errorf("the change of key %d is gone", i)
		}
	}
}

func TestAKeyThatIsOverwrittenKeepsUnitsAboveTheMaximum(t *testing.T) {
	many, few := new(scopedLimit), new(scopedLimit)
	many.Max, few.Max = 10, 5
	for _, test := range []struct {
		name string
		c    change
		kept bool
	}{
		{"above the maximum", change{units: 8, until: 20}, true},
		{"below it", change{units: 3, until: 20}, false},
		{"over", change{units: 8, until: 10}, false},
	} {
		e := &entry{hash: 9, state: state{a: 3}}
		test.c.state, test.c.above = e.state, test.c.units > few.Max
		var cs changes
		cs.store(e.hash, test.c, &table{buckets: make([]tableBucket, 2)}, 10)
		cs.overwrite(e, many, few, 10)
		e.state = state{a: 1}
		if _, ok := cs.of(e, 10); ok != test.kept {
			t.Errorf("%s: a limit starts from the change: %t, want %t", test.name, ok, test.kept)
		}
	}
}
