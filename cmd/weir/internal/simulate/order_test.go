package simulate

import (
	"encoding/binary"
	"testing"
)

// emitted pushes stamps, in seconds, and returns them as they are emitted.
func emitted(t *testing.T, o *order, stamps []int64) (at []int64) {
	t.Helper()
	seen := make(map[*item]bool)
	o.emit = func(it *item) {
		if seen[it] {
			t.Fatal("a request is emitted twice")
		}
		seen[it] = true
		if it.spread < it.at || it.spread >= it.at+second {
			t.Fatalf("spread from %d to %d", it.at, it.spread)
		}
		at = append(at, it.at/second)
	}
	for _, sec := range stamps {
		o.push(&item{at: sec * second})
	}
	o.flush()
	if len(at) != len(stamps) {
		t.Fatalf("%d requests in, %d out", len(stamps), len(at))
	}
	return at
}

func TestAFirstLineWithAWrongClockMovesNothing(t *testing.T) {
	o := order{whole: true}
	at := emitted(t, &o, []int64{4_000_000_000, 1_700_000_000, 1_700_000_001})
	if at[0] != 1_700_000_000 || at[2] != 1_700_000_001 || o.jumps != 1 || o.late != 0 {
		t.Errorf("got %v, %d jumps, %d late", at, o.jumps, o.late)
	}
}

func TestOneRequestIsEmitted(t *testing.T) {
	if at := emitted(t, &order{}, []int64{7}); at[0] != 7 {
		t.Errorf("got %v", at)
	}
}

// FuzzOrder pushes any stamps: each request is emitted once, and in order unless the clock
// was set back.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2, 255, 0, 0, 0, 0, 0, 0, 3}, true)
	f.Add(make([]byte, 400), false)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		var stamps []int64
		now := int64(1000)
		for ; len(data) >= 2; data = data[2:] {
			n := binary.BigEndian.Uint16(data)
			switch n % 4 {
			case 0:
				now += int64(n / 4 % 8)
			case 1:
				now -= min(now, int64(n/4%8))
			case 2:
				stamps = append(stamps, max(0, now-int64(n))) // one line from another time
				continue
			case 3:
				if n/4%16 == 0 {
					now += int64(n) * 100
				}
			}
			stamps = append(stamps, now)
		}
		o := order{whole: whole}
		at := emitted(t, &o, stamps)
		for i := 1; i < len(at) && o.jumps == 0; i++ {
			if at[i] < at[i-1] {
				t.Fatalf("%v is emitted as %v", stamps, at)
			}
		}
	})
}
