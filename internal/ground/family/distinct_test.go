package family

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// distinctKey is a key under a limit that counts values, with the values that it has by the
// definition.
type distinctKey struct {
	Compiled
	*Numbers
	used Used
	list *entries
	last map[uint64]int64 // the last request with each value
	// How many requests have had each value since it was new.
	times map[uint64]int
	lost  []int64 // the requests with values that the log does not know
}

func newDistinctKey(limit limits.Limit) *distinctKey {
	compiled, numbers := Compile(limit)
	return &distinctKey{compiled, &numbers, Used{}, new(entries),
		map[uint64]int64{}, map[uint64]int{}, nil}
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
func (k *distinctKey) take(value uint64, now int64) string {
	at, had := k.last[value]
	before := k.inUse(now)
	fits := had && now < at+k.Period || before < k.Max
	after, told, got := k.Decide(k.used, 1, now, value, k.list)
	if got != fits {
		return fmt.Sprintf("fits is %t", got)
	}
	if got {
		if _, twice, fits := k.Decide(after, 1, now, value, k.list); !fits || twice != told { // a shadow on top
			return fmt.Sprintf("taken again: %v, %+v, before %+v", fits, twice, told)
		}
		k.store(after, value, now)
		if k.last[value] = now; !had || now >= at+k.Period {
			k.times[value] = 0
		}
		k.times[value]++
	}
	switch inUse := k.inUse(now); {
	case k.list.wrong(k.used) != "":
		return k.list.wrong(k.used)
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

// store makes s, to which value was added, the state of k.
func (k *distinctKey) store(s Used, value uint64, now int64) {
	if Log(s).Head() == 0 {
		free(Log(k.used).Head(), 0, k.list)
	}
	k.used = k.Compiled.(Lister).Store(onStored(s, k.used), now, value, k.list)
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
			value := random.Uint64N(8)
			if wrong := k.take(value, now); wrong != "" {
				t.Fatalf("%v, %d at %d: %s", k.Given, value, now-begin, wrong)
			}
			if random.IntN(6) == 0 {
				k.refund(t, value, now)
			}
		}
	}
}

// refund returns a value that may have been new at now.
func (k *distinctKey) refund(t *testing.T, value uint64, now int64) {
	t.Helper()
	if at, had := k.last[value]; had && at == now && k.times[value] == 1 {
		delete(k.last, value)
	}
	k.used = k.Refund(k.used, Refund{Taken: 1, At: now, Now: now, Value: value}, k.list)
	_, told, _ := k.Decide(k.used, 0, now, 0, k.list)
	if told.InUse != k.inUse(now) || k.inUse(now+told.Reset-1) == 0 && told.Reset > 0 {
		t.Fatalf("%v, %d returned: %d are in use, want %d; fresh in %d",
			k.Given, value, told.InUse, k.inUse(now), told.Reset)
	}
}

// takeShort takes a value of a key that may have forgotten values.
func (k *distinctKey) takeShort(t *testing.T, value uint64, now int64) {
	t.Helper()
	at, had := k.last[value]
	mayFit := had && now < at+k.Period || k.inUse(now) < k.Max
	after, _, fits := k.Decide(k.used, 1, now, value, k.list)
	if fits {
		k.store(after, value, now)
		k.last[value] = now
	}
	_, told, _ := k.Decide(k.used, 0, now, value, k.list)
	if wrong := k.list.wrong(k.used); fits && !mayFit || told.InUse < k.inUse(now) || wrong != "" {
		t.Fatalf("%v, %d at %d: fits is %t, want %t at most; %d are in use, want %d at least; %s",
			k.Given, value, now-begin, fits, mayFit, told.InUse, k.inUse(now), wrong)
	}
}
