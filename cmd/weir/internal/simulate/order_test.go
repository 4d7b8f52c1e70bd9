package simulate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// newOrder returns an order that keeps most requests in memory, and counts those that it holds in held.
func newOrder(t testing.TB, whole bool, most int) (o *order, held *int) {
	held = new(int)
	o = &order{
		whole: whole, most: most, tapes: tapes{keys: newKeys()},
		fresh: func() *item { *held++; return new(item) },
		free:  func(it *item) { *held--; *it = item{at: -1 << 60} }, // it is not read again
	}
	t.Cleanup(o.tapes.close)
	return o, held
}

// emitted pushes stamps, in seconds, and returns them as they are emitted.
func emitted(t *testing.T, o *order, stamps []int64) (at []int64) {
	t.Helper()
	seen := make(map[uint32]bool)
	o.emit = func(it *item) {
		if seen[it.client] {
			t.Fatal("a request is emitted twice")
		}
		seen[it.client] = true
		if it.spread < it.at || it.spread >= it.at+second {
			t.Fatalf("spread from %d to %d", it.at, it.spread)
		}
		at = append(at, it.at/second)
	}
	for i, sec := range stamps {
		o.push(&item{at: sec * second, client: uint32(i)})
	}
	o.flush()
	if len(at) != len(stamps) {
		t.Fatalf("%d requests in, %d out", len(stamps), len(at))
	}
	return at
}

func TestAFirstLineWithAWrongClockMovesNothing(t *testing.T) {
	o, _ := newOrder(t, true, 10)
	at := emitted(t, o, []int64{4_000_000_000, 1_700_000_000, 1_700_000_001})
	if at[0] != 1_700_000_000 || at[2] != 1_700_000_001 || o.jumps != 1 || o.late != 0 {
		t.Errorf("got %v, %d jumps, %d late", at, o.jumps, o.late)
	}
}

func TestOneRequestIsEmitted(t *testing.T) {
	o, _ := newOrder(t, false, 10)
	if at := emitted(t, o, []int64{7}); at[0] != 7 {
		t.Errorf("got %v", at)
	}
}

// A second of more requests than wait in memory, and lines that are late among as many.
func TestRequestsWaitOnTapesInBoundedMemory(t *testing.T) {
	const most, n = 100, 20_000
	for _, whole := range []bool{false, true} {
		for name, at := range map[string]func(i int64) int64{
			"one second":     func(i int64) int64 { return 1000*second + i*7919%second },
			"late lines":     func(i int64) int64 { return (1000+i/50)*second - i%3*40*second },
			"a second a day": func(i int64) int64 { return (1000 + i/1000*86400) * second },
		} {
			o, held := newOrder(t, whole, most)
			var got []item
			o.emit = func(it *item) {
				got = append(got, *it)
				o.free(it)
			}
			all, peak := make([]item, n), 0
			for i := range all {
				it := o.fresh()
				it.at, it.lasted, it.client = at(int64(i)), -1, uint32(i)
				all[i] = *it
				o.push(it)
				peak = max(peak, *held-len(o.written)) // a tape has its next request in memory
			}
			o.flush()
			if o.late != 0 || o.jumps != 0 {
				t.Errorf("%s: %d late, %d jumps", name, o.late, o.jumps)
			}
			if peak > most+2 {
				t.Errorf("%s: %d requests were in memory, want %d", name, peak, most)
			}
			slices.SortStableFunc(all, func(a, b item) int {
				if whole {
					return cmp.Compare(a.at/second, b.at/second)
				}
				return cmp.Compare(a.at, b.at)
			})
			for i := range all {
				if want, it := &all[i], &got[i]; it.client != want.client || !whole && it.at != want.at ||
					it.at/second != want.at/second {
					t.Fatalf("%s, whole seconds %v: number %d is %d at %d, want %d at %d", name, whole, i, it.client,
						it.at,
						want.client, want.at)
				}
			}
			if len(o.written) > 0 || o.waiting != 0 || o.kept != 0 {
				t.Errorf("%s: %d tapes, %d waiting", name, len(o.written), o.waiting)
			}
			if used := int64(len(o.tapes.unused)) * blockSize; used != o.tapes.size {
				t.Errorf("%s: %d of %d bytes of the file are unused", name, used, o.tapes.size)
			}
		}
	}
}

// randomItem returns an item with charges, some of them more than an item has room for.
func randomItem(random *rand.Rand, keys *keys) item {
	it := item{
		at: random.Int64N(1 << 53), lasted: random.Int64N(1<<40) - 1, bytes: random.Int64() >> random.IntN(64),
		client: random.Uint32(), status: uint16(random.IntN(600)),
	}
	for range random.IntN(5) {
		c := charge{rule: uint16(random.IntN(1 << 16)), cost: random.Int64() >> random.IntN(64)}
		c.id, c.key = keys.of(strings.Repeat("k", random.IntN(9)))
		if random.IntN(2) == 0 {
			c.limit = limits.FixedWindow(limits.PerMinute(random.Int64N(4)))
		}
		if random.IntN(4) == 0 {
			c.err = []error{io.EOF, io.ErrUnexpectedEOF}[random.IntN(2)]
		}
		it.add(c)
	}
	return it
}

// same reports whether two items are of one request.
func same(a, b *item) bool {
	all := func(it *item) (charges []charge) {
		it.each(func(c *charge) { charges = append(charges, *c) })
		return charges
	}
	return a.at == b.at && a.lasted == b.lasted && a.bytes == b.bytes && a.client == b.client && a.status == b.status &&
		slices.Equal(all(a), all(b))
}

func TestATapeHasWhatWasWritten(t *testing.T) {
	random := testrun.Random(t)
	for name, spoil := range map[string]func(t *testing.T, of *tapes, n int){
		"a file": func(*testing.T, *tapes, int) {},
		"no file": func(t *testing.T, _ *tapes, _ int) {
			t.Setenv("TMPDIR", "/dev/null")
			t.Setenv("TMP", "/dev/null")
		},
		"a full disk": func(_ *testing.T, of *tapes, n int) { of.noFile = n > 3000 },
	} {
		t.Run(name, func(t *testing.T) {
			all := tapes{keys: newKeys()}
			defer all.close()
			for range 3 { // blocks are used again
				var want []item
				var on [2]tape
				for n := range 4000 {
					spoil(t, &all, n)
					it := randomItem(random, all.keys)
					want = append(want, it)
					all.write(&on[n%2], &it)
				}
				all.rewind(&on[0], new(item))
				all.rewind(&on[1], new(item))
				for i := range want {
					from := &on[i%2]
					if from.head == nil || !same(from.head, &want[i]) {
						t.Fatalf("number %d is %v, want %v", i, from.head, want[i])
					}
					all.advance(from)
				}
				if on[0].head != nil || on[1].head != nil || all.failure() != nil {
					t.Fatalf("behind the last: %v, %v, %v", on[0].head, on[1].head, all.failure())
				}
			}
			if (all.file != nil) == (name == "no file") {
				t.Errorf("the file is %v", all.file)
			}
		})
	}
}

func TestTheFileOfTapesIsRemovedAndHasNoKeys(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("TMPDIR has another name")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	all := tapes{keys: newKeys()}
	it := item{}
	id, key := all.keys.of("secret")
	it.add(charge{id: id, key: key, err: errors.New("secret, too")})
	var one tape
	for range 10_000 {
		all.write(&one, &it)
	}
	data := make([]byte, all.size)
	if _, err := all.file.ReadAt(data, 0); err != nil || len(data) == 0 || bytes.Contains(data, []byte("secret")) {
		t.Errorf("%d bytes, %v; the key is in them: %v", len(data), err, bytes.Contains(data, []byte("secret")))
	}
	all.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

func TestATapeThatCannotBeReadIsAnError(t *testing.T) {
	o, _ := newOrder(t, true, 5_000)
	o.emit = func(*item) {}
	for range 10_000 {
		o.push(&item{at: 1000 * second, client: 1 << 31})
	}
	o.tapes.file.Close()
	o.flush()
	if err := o.tapes.failure(); err == nil || !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
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
		o, _ := newOrder(t, whole, 1<<17)
		at := emitted(t, o, stamps)
		little, _ := newOrder(t, whole, 3)
		if again := emitted(t, little, stamps); !slices.Equal(at, again) || o.late != little.late ||
			o.jumps != little.jumps {
			t.Fatalf("%v is emitted as %v, and with tapes as %v", stamps, at, again)
		}
		for i := 1; i < len(at) && o.jumps == 0; i++ {
			if at[i] < at[i-1] {
				t.Fatalf("%v is emitted as %v", stamps, at)
			}
		}
	})
}
