package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// names is a Memory that counts the names that an address tries.
type names struct {
	testing.TB
	*memory.Memory
	limit limits.Limit
}

func namesOf(t testing.TB, options memory.Options, limit limits.Limit) names {
	return names{t, memory.MustNew(options), limit}
}

// giveBack ends a taking of a name with a cost of final.
func (n names) giveBack(name string, taken, final int64, d limits.Decision) limits.Settlement {
	n.Helper()
	out := make([]limits.Settlement, 1)
	e := backends.Ending{Scope: "login", Key: "k", Limit: n.limit, Taken: taken, Final: final,
		Value: asking.Value(name), Ticket: d.Ticket}
	if err := n.Settle(context.Background(), []backends.Ending{e}, out); err != nil {
		n.Fatal(err)
	}
	return out[0]
}

func (n names) try(key, name string) limits.Decision {
	n.Helper()
	out := make([]limits.Decision, 1)
	charges := []backends.Charge{{Scope: "login", Key: key, Limit: n.limit, Cost: 1, Value: asking.Value(name)}}
	if err := n.Take(context.Background(), charges, out); err != nil {
		n.Fatal(err)
	}
	return out[0]
}

// However few nodes there are, values count. Those that are no longer known count again.
func TestValuesThatAreForgottenStillCount(t *testing.T) {
	n := namesOf(t, memory.Options{MaxLogEntries: 1}, limits.Distinct(limits.PerHour(40)))
	most := map[string]int{}
	for round := range 3 {
		for name := range 60 {
			for address := range 20 {
				key := fmt.Sprint(address)
				if d := n.try(key, fmt.Sprint(name)); d.Allowed && round == 0 {
					most[key]++
				}
			}
		}
	}
	for key, admitted := range most {
		if admitted > 40 {
			t.Errorf("%d names of address %s were admitted", admitted, key)
		}
	}
}

func TestValuesThatAreKnownCostNothing(t *testing.T) {
	n := namesOf(t, memory.Options{}, limits.Distinct(limits.PerHour(40)))
	for range 3 {
		for name := range 40 {
			for address := range 20 {
				if d := n.try(fmt.Sprint(address), fmt.Sprint(name)); !d.Allowed {
					t.Fatalf("name %d of address %d: %+v", name, address, d)
				}
			}
		}
	}
}

func TestALimitOnValuesCannotBeBound(t *testing.T) {
	_, err := memory.MustNew(memory.Options{}).Bind("login", limits.Distinct(limits.PerHour(5)))
	if err == nil || !strings.Contains(err.Error(), "counts values") {
		t.Error(err)
	}
}

// What another rule denies has not been had, unless it was had again.
func TestAValueThatIsGivenBackIsNewAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := namesOf(t, memory.Options{}, limits.Distinct(limits.PerHour(2)))
		n.try("k", "ann")
		time.Sleep(time.Minute)
		bob := n.try("k", "bob")
		if got := n.giveBack("bob", 1, 0, bob); got.Returned != 1 {
			t.Errorf("bob: %+v", got)
		}
		if d := n.try("k", "cat"); !d.Allowed || d.ResetAfter != time.Hour {
			t.Errorf("cat: %+v", d)
		}
		again := n.try("k", "cat")
		if got := n.giveBack("cat", 1, 0, again); got.Returned != 0 {
			t.Errorf("cat, who was there before: %+v", got)
		}
		if d := n.try("k", "dan"); d.Allowed {
			t.Errorf("dan: %+v", d)
		}
	})
}

// A client may try new names all the time, each of which another rule denies.
func TestAValueThatIsGivenBackLeavesNoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := namesOf(t, memory.Options{MaxKeys: 1}, limits.Distinct(limits.PerHour(5)))
		for i := range 200 {
			first := n.try("k", "first")
			n.try("k", "ann")
			time.Sleep(time.Second)
			middle := n.try("k", "middle")
			n.try("k", "bob")
			last := n.try("k", "last")
			n.giveBack("middle", 1, 0, middle)
			n.giveBack("last", 1, 0, last)
			n.giveBack("first", 1, 0, first)
			if d := n.try("k", "bob"); d.Remaining != 3 || d.ResetAfter != time.Hour {
				t.Fatalf("round %d: %+v, want ann and bob", i, d)
			}
		}
		if nodes := memory.Nodes(n.Memory); nodes > 10 {
			t.Errorf("the key has %d nodes for five values", nodes)
		}
	})
}

// The value of a request that costs a unit in the end stays, however many it was to cost.
func TestAValueThatStillCostsAUnitStays(t *testing.T) {
	n := namesOf(t, memory.Options{}, limits.Distinct(limits.PerHour(1)))
	d := n.try("k", "ann")
	if got := n.giveBack("ann", 3, 1, d); got.Returned != 0 {
		t.Errorf("%+v", got)
	}
	if d := n.try("k", "bob"); d.Allowed {
		t.Errorf("a second name: %+v", d)
	}
}

func BenchmarkTakeOfAKnownValue(b *testing.B) {
	for _, values := range []int{2, 50, 1000} {
		b.Run(fmt.Sprint(values), func(b *testing.B) {
			n := namesOf(b, memory.Options{}, limits.Distinct(limits.PerHour(1000)))
			known := make([]uint64, values)
			for i := range known {
				name := fmt.Sprint("user ", i)
				known[i] = asking.Value(name)
				n.try("k", name)
			}
			charges := []backends.Charge{{Scope: "login", Key: "k", Limit: n.limit, Cost: 1}}
			out := make([]limits.Decision, 1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				charges[0].Value = known[i%values]
				if err := n.Take(context.Background(), charges, out); err != nil || !out[0].Allowed {
					b.Fatal(out, err)
				}
			}
		})
	}
}
