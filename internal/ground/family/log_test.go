package family

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// A log of 10,000 units, the most, owes 10,000 more at most.
func TestTheNumbersOfALogHaveRoomForTheLargest(t *testing.T) {
	s := LogOf(65_535, 7).With(65_535, 65_534, 1<<32-1, 1<<32-2)
	if s.Sum() != 65_535 || s.Latest() != 65_534 || s.Pending() != 0 || s.Head() != 1<<32-1 || s.Tail() != 1<<32-2 {
		t.Errorf("%d, %d, %d, list %d to %d", s.Sum(), s.Latest(), s.Pending(), s.Head(), s.Tail())
	}
}

// What is lost is how much was taken when.
func TestALogWithoutItsListCountsAsOneTaking(t *testing.T) {
	s := LogOf(9, 7).With(9, 2, 3, 4)
	if got := s.Unlisted(); got != LogOf(9, 7) {
		t.Errorf("%+v, want %+v", got, LogOf(9, 7))
	}
	if alone := LogOf(2, 7); alone.Unlisted() != alone {
		t.Errorf("%+v has no list, and becomes %+v", alone, alone.Unlisted())
	}
}

// A list that finds no entry shrinks: what is in use counts longer, and no value becomes known.
func TestALogShortOfEntriesAdmitsNothingTooMuch(t *testing.T) {
	random := testrun.Random(t)
	for range testrun.Sized(100, 3000) {
		rate := limits.Per(1+random.Int64N(30), time.Duration(1000+random.IntN(3000))*time.Microsecond)
		sum, values := newKey(limits.SlidingLog(rate)), newDistinctKey(limits.Distinct(rate))
		sum.entries.most, values.list.most = 1+random.IntN(20), 1+random.IntN(20)
		type taking struct{ at, units int64 }
		var all []taking
		for now := begin; now < begin+5*sum.Period; now += random.Int64N(2 + sum.Period/20) {
			inUse := int64(0)
			for _, one := range all {
				if now < one.at+sum.Period {
					inUse += one.units
				}
			}
			s := step{at: now - begin, verb: "take", n: 1 + random.Int64N(3)}
			o := sum.do(s)
			if o.fits && inUse+s.n > sum.Max {
				t.Fatalf("%v: %v fits, and %d are in use", sum.Given, s, inUse)
			}
			if o.fits {
				all, inUse = append(all, taking{now, s.n}), inUse+s.n
			}
			if wrong := sum.entries.wrong(sum.used); wrong != "" || o.InUse < inUse {
				t.Fatalf("%v: %v: %d are in use, want %d at least; %s", sum.Given, s, o.InUse, inUse, wrong)
			}
			values.takeShort(t, random.Uint64N(40), now)
		}
	}
}

// The example of shrink.
func TestAListShrinksByMergingNeighbours(t *testing.T) {
	e := new(entries)
	s := LogOf(1, 1)
	for _, at := range []int64{2, 5, 11, 13} {
		s = s.push(e)
		s.At, s.B = at, packLog(s.Sum()+1, 1)
	}
	s = s.shrink(e)
	if wrong := e.wrong(Used(s)); wrong != "" || s.Head() != s.Tail() || len(e.free) != 3 {
		t.Fatalf("the list goes from %d to %d, %d are free; %s", s.Head(), s.Tail(), len(e.free), wrong)
	}
	if got, want := e.Get(s.Head()), (Entry{Word: 5, Units: 3}); got != want || s.Latest() != 2 {
		t.Errorf("%+v and the latest %d, want %+v and 2", got, s.Latest(), want)
	}
}

func TestAListForgetsItsOldestValuesFirst(t *testing.T) {
	k := newDistinctKey(limits.Distinct(limits.PerHour(10)))
	for value := range uint64(4) {
		after, _, _ := k.Decide(k.used, 1, begin+int64(value), value, k.list)
		k.store(after, value, begin+int64(value))
	}
	for n, known := range []int{2, 1, 0, 0} { // a quarter of the entries at a time: of 8, 6, 5 and 4
		k.used = k.Compiled.(Lister).Shrink(k.used, k.list)
		for value := range uint64(4) {
			i, _ := k.list.Find(Log(k.used).Head(), int64(value), isValue)
			if got, want := i != 0, int(value) >= 4-known; got != want {
				t.Errorf("shrunk %d times: value %d is known: %t", n+1, value, got)
			}
		}
		if wrong := k.list.wrong(k.used); wrong != "" || Log(k.used).Sum() != 4 {
			t.Errorf("shrunk %d times: %d units; %s", n+1, Log(k.used).Sum(), wrong)
		}
	}
}
