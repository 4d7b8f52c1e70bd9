package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

func (n names) try(key, name string) limits.Decision {
	n.Helper()
	out := make([]limits.Decision, 1)
	charges := []backends.Charge{{Scope: "login", Key: key, Limit: n.limit, Cost: 1, Value: name}}
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
		back := func(name string, d limits.Decision) limits.Settlement {
			out := make([]limits.Settlement, 1)
			e := backends.Ending{
				Scope: "login", Key: "k", Limit: n.limit, Taken: 1, Value: name, Ticket: d.Ticket,
			}
			if err := n.Settle(context.Background(), []backends.Ending{e}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		n.try("k", "ann")
		time.Sleep(time.Minute)
		bob := n.try("k", "bob")
		if got := back("bob", bob); got.Returned != 1 {
			t.Errorf("bob: %+v", got)
		}
		if d := n.try("k", "cat"); !d.Allowed || d.ResetAfter != time.Hour {
			t.Errorf("cat: %+v", d)
		}
		again := n.try("k", "cat")
		if got := back("cat", again); got.Returned != 0 {
			t.Errorf("cat, who was there before: %+v", got)
		}
		if d := n.try("k", "dan"); d.Allowed {
			t.Errorf("dan: %+v", d)
		}
	})
}

func BenchmarkTakeOfAKnownValue(b *testing.B) {
	for _, values := range []int{2, 50, 1000} {
		b.Run(fmt.Sprint(values), func(b *testing.B) {
			n := namesOf(b, memory.Options{}, limits.Distinct(limits.PerHour(1000)))
			known := make([]string, values)
			for i := range known {
				known[i] = fmt.Sprint("user ", i)
				n.try("k", known[i])
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
