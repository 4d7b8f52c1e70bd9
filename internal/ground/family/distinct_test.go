package family

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// named is the store of one log of values. It keeps the values beside the entries.
type named struct {
	entries
	of    map[uint32]string
	again map[uint32]bool
	value string // the value that is charged or refunded
}

func (v *named) OfValue(head uint32) uint32 {
	for i := head; i != 0; i = v.entries[i].next {
		if name, known := v.of[i]; known && name == v.value && v.entries[i].units > 0 {
			return i
		}
	}
	return 0
}

func (v *named) IsSeenAgain(i uint32) bool { return v.again[i] }

// store gives what is pending in s its place.
func (v *named) store(used Used, now int64) Used {
	s := Log(used)
	var list []uint32
	moved := v.OfValue(s.Head())
	for i := s.Head(); i != 0; i = v.entries[i].next {
		if i != moved {
			list = append(list, i)
		}
	}
	add := func(e entry) uint32 {
		i := uint32(len(v.entries) + 1)
		v.entries[i] = &e
		list = append(list, i)
		return i
	}
	latest := s.Latest()
	if latest > 0 && s.At != now {
		add(entry{at: s.At, units: latest})
		latest = 0
	}
	own := add(entry{at: now, units: 1})
	v.of[own], v.again[own] = v.value, moved != 0
	for n, i := range list {
		v.entries[i].next = 0
		if n > 0 {
			v.entries[list[n-1]].next = i
		}
	}
	return Used(Log{At: now}.With(s.Sum()+1, latest, list[0], own))
}

// distinctKey is a key under a limit that counts values, with the values that it has by the
// definition.
type distinctKey struct {
	Compiled
	*Numbers
	used Used
	log  *named
	last map[string]int64 // the last request with each value
	lost []int64          // the requests with values that the log does not know
}

func newDistinctKey(limit limits.Limit) *distinctKey {
	compiled, numbers := Compile(limit)
	log := &named{entries{}, map[uint32]string{}, map[uint32]bool{}, ""}
	return &distinctKey{compiled, &numbers, Used{}, log, map[string]int64{}, nil}
}

// inUse returns how many values the key has had within the period.
func (k *distinctKey) inUse(now int64) (n int64) {
	for _, at := range k.last {
		if now < at+k.Period {
			n++
		}
	}
	for _, at := range k.lost {
		if now < at+k.Period {
			n++
		}
	}
	return n
}

// take takes a value at now and returns the mistake in the decision, or "".
func (k *distinctKey) take(value string, now int64) string {
	k.log.value = value
	at, had := k.last[value]
	before := k.inUse(now)
	fits := had && now < at+k.Period || before < k.Max
	after, told, got := k.Decide(k.used, 1, now, k.log)
	if got != fits {
		return fmt.Sprintf("fits is %t", got)
	}
	if got {
		if _, twice, fits := k.Decide(after, 1, now, k.log); !fits || twice != told { // a shadow on top
			return fmt.Sprintf("taken again: %v, %+v, before %+v", fits, twice, told)
		}
		k.used, k.last[value] = k.log.store(after, now), now
	}
	switch inUse := k.inUse(now); {
	case told.InUse != inUse:
		return fmt.Sprintf("%d are in use, want %d", told.InUse, inUse)
	case inUse > 0 && k.inUse(now+told.Reset) != 0 || told.Reset > 0 && k.inUse(now+told.Reset-1) == 0:
		return fmt.Sprintf("it is fresh in %d", told.Reset)
	case inUse < k.Max:
	case k.inUse(now+told.Wait) >= k.Max || k.inUse(now+told.Wait-1) < k.Max:
		return fmt.Sprintf("another value fits in %d", told.Wait)
	}
	return ""
}

func TestDistinctByItsDefinition(t *testing.T) {
	random := testrun.Random(t)
	for range testrun.Sized(200, 5000) {
		period := time.Duration(1000+random.IntN(3000)) * time.Microsecond
		k := newDistinctKey(limits.Distinct(limits.Per(1+random.Int64N(6), period)))
		now := begin
		if random.IntN(4) == 0 {
			inherited, _ := k.Compiled.Inherit(Used{At: now}, k.Max)
			for range k.Max {
				k.lost = append(k.lost, now)
			}
			k.used = inherited
		}
		for range 200 {
			now += []int64{0, 0, 1, random.Int64N(k.Period), random.Int64N(1 + k.Period/3)}[random.IntN(5)]
			value := fmt.Sprint(random.IntN(8))
			if wrong := k.take(value, now); wrong != "" {
				t.Fatalf("%v, %q at %d: %s", k.Given, value, now-begin, wrong)
			}
			if random.IntN(6) == 0 {
				k.refund(t, value, now)
			}
		}
	}
}

// refund returns a value that may have been new at now.
func (k *distinctKey) refund(t *testing.T, value string, now int64) {
	t.Helper()
	i := k.log.OfValue(Log(k.used).Head())
	returns := i != 0 && !k.log.again[i] && k.log.entries[i].at == now
	k.used = k.Refund(k.used, Refund{Taken: 1, At: now, Now: now}, k.log)
	if returns {
		delete(k.last, value)
	}
	if _, told, _ := k.Decide(k.used, 0, now, k.log); told.InUse != k.inUse(now) {
		t.Fatalf("%v, %q returned: %d are in use, want %d", k.Given, value, told.InUse, k.inUse(now))
	}
}
