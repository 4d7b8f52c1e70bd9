package shed

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// group are requests of some tenants, all of one class and route.
type group struct {
	load   float64 // times the capacity
	tenant func(n int) string
	class  int
}

func numbered(prefix string, of int) func(int) string {
	return func(n int) string { return fmt.Sprint(prefix, n%of) }
}

// anyOf names one of so many tenants at random.
func anyOf(prefix string, of int) func(int) string {
	return func(n int) string {
		x := uint64(n)
		return fmt.Sprint(prefix, pick(&x, of))
	}
}

// answered returns which part of the requests of each group gets a good answer, from 20 slots of 50
// ms.
func answered(t *testing.T, options Options[overload.Request], seed uint64, groups ...group) []float64 {
	t.Helper()
	total := 0.0
	for _, g := range groups {
		total += g.load
	}
	s := &overload.Scenario{Slots: 20, SLO: 250 * msec, Timeout: time.Hour, Length: 60 * time.Second, From: 20 * time.Second,
		Load: func(_ time.Duration, load float64) float64 { return load }}
	for i, g := range groups {
		s.Routes = append(s.Routes, overload.Route{
			Name: fmt.Sprint(i), Tenant: g.tenant,
			Share: func(time.Duration) float64 { return g.load / total },
			Mean:  func(time.Duration) time.Duration { return 50 * msec },
			Time: func(_ time.Duration, u float64) time.Duration {
				return time.Duration(float64(50*msec) * (0.8 + 0.4*u))
			},
		})
	}
	options.Classify = func(r overload.Request) int { return groups[r.Route[0]-'0'].class }
	var x *overload.Result
	synctest.Test(t, func(*testing.T) {
		x = s.Run(oneRoute{simulated{MustNew(options)}}, overload.Options{Load: total, Seed: seed})
	})
	parts := make([]float64, len(groups))
	for i := range groups {
		of := x.Of[fmt.Sprint(i)]
		parts[i] = part(of.Good, of.Tries)
	}
	return parts
}

// oneRoute is a simulated Shedder for which all requests are of one route.
type oneRoute struct{ simulated }

func (s oneRoute) Enter(r overload.Request) (func(bool), bool) {
	permit, _ := s.Acquire(context.Background(), r)
	if permit == nil {
		return nil, false
	}
	return func(failed bool) { permit.End(Result{Failed: failed}) }, true
}

func byTenant(r overload.Request) string { return r.Tenant }

func TestOneTenantDoesNotCostOthersTheirAnswers(t *testing.T) {
	light := func(each float64) group { return group{load: 9 * each, tenant: numbered("light", 9)} }
	heavy := func(load float64) group { return group{load: load} }
	renamed := func(load float64) group { return group{load: load, tenant: numbered("new", 1<<30)} }
	for _, c := range []struct {
		name          string
		light, heavy  group
		least, gained float64 // of the light ones at least, of the heavy one at most
	}{
		{"nine at 0.08, one at 0.8", light(0.08), heavy(0.8), 0.995, 0.4},
		{"nine at 0.8 together, one at ten times as much", light(0.8 / 9), heavy(0.8 / 0.9), 0.992, 0.3},
		{"nine at 0.1, one at 1", light(0.1), heavy(1), 0.93, 0.2},
		{"nine at 0.05, one at 3", light(0.05), heavy(3), 0.995, 0.2},
		{"a new name for each request", light(0.08), renamed(0.8), 0.995, 0.4},
		{"a new name for each request, at the capacity", light(0.1), renamed(1), 0.93, 0.2},
		{"1,000 tenants", group{load: 0.9, tenant: anyOf("light", 1000)}, heavy(1), 0.94, 0.2},
		{"1,000 tenants, and a new name for each request", group{load: 0.5, tenant: anyOf("light", 1000)}, renamed(2), 0.5, 0.38},
		{"20,000 names", group{load: 0.5, tenant: anyOf("light", 100)}, group{load: 2, tenant: anyOf("many", 20_000)}, 0.93, 0.3},
	} {
		for seed := range uint64(testrun.Sized(1, 6)) {
			got := answered(t, Options[overload.Request]{Tenant: byTenant}, seed+1, c.light, c.heavy)
			if got[0] < c.least || got[1] > c.gained {
				t.Errorf("%s, seed %d: %.3f of the light requests get a good answer, want %.3f; %.3f of the others, want at most %.2f",
					c.name, seed+1, got[0], c.least, got[1], c.gained)
			}
		}
	}
}

// Without a lighter tenant a heavy one loses nothing.
func TestPlacesAreLentToTenantsWhileTheyAreFree(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    group
		least float64
	}{
		{"one alone at 2", group{load: 2}, 0.48},
		{"1,000 at 2 together", group{load: 2, tenant: anyOf("all", 1000)}, 0.48},
		{"one alone at 0.8", group{load: 0.8}, 0.997},
	} {
		if got := answered(t, Options[overload.Request]{Tenant: byTenant}, 1, c.of)[0]; got < c.least {
			t.Errorf("%s: %.3f of the requests get a good answer, want %.3f", c.name, got, c.least)
		}
	}
}

func TestSharesOfClassesAndTenantsMultiply(t *testing.T) {
	options := Options[overload.Request]{Tenant: byTenant, Classes: []Class{{Name: "critical"}, {Name: "other"}}}
	got := answered(t, options, 1, group{load: 0.45, tenant: numbered("critical", 9)}, group{load: 0.45, tenant: numbered("other", 9), class: 1}, group{load: 1})
	if got[0] < 0.99 || got[1] < 0.25 {
		t.Errorf("nine critical tenants, nine others, and a heavy critical one: %.3f of the requests get a good answer", got)
	}
}

// Names that have been checked are tenants: who has many has many shares, and no more.
func TestManyNamesAreManyTenants(t *testing.T) {
	got := answered(t, Options[overload.Request]{Tenant: byTenant}, 1, group{load: 0.5, tenant: anyOf("light", 100)}, group{load: 2, tenant: numbered("many", 500)})
	if got[0] < 0.29 || got[1] > 0.43 {
		t.Errorf("100 tenants beside 500 names in turn: %.3f of the requests get a good answer", got)
	}
}

// equal returns a limiter with a fixed limit that is fair among tenants, and a function that lets
// one of a tenant enter.
func equal(limit int) (l *limiter, enter func(name uint64, queue bool) (*Permit, *waiter)) {
	l = &limiter{epoch: time.Now()}
	c := l.configure(nil, limits{fixed: limit, fair: true})[0]
	return l, func(name uint64, queue bool) (*Permit, *waiter) {
		e, w := l.enter(c, name, 0, queue)
		return e.permit, w
	}
}

// meet makes names known to the limiter.
func meet(enter func(uint64, bool) (*Permit, *waiter), names ...uint64) {
	for range 2 {
		for _, name := range names {
			p, _ := enter(name, false)
			p.End(Result{})
		}
		time.Sleep(youngFor)
	}
}

// uses says how much a tenant has used of late.
func uses(l *limiter, name uint64, use float64) {
	x := l.tenants.known[name]
	x.use, x.until = use, l.now()
}

func TestATenantThatUsesMuchHasHalfOfThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, enter := equal(20)
		meet(enter, 1, 2)
		fill := func(name uint64) (n int) {
			for p, _ := enter(name, false); p != nil; p, _ = enter(name, false) {
				n++
			}
			return n
		}
		if n := fill(1); n != 20 {
			t.Errorf("a tenant alone has %d places of 20", n)
		}
		time.Sleep(5 * useLife)
		for p := l.running.First; l.inFlight > 8; p = l.running.First {
			p.Of.End(Result{})
		}
		p, _ := enter(2, false)
		time.Sleep(5 * useLife) // 8 and 1 of 20: use is shared by two
		uses(l, 1, 20)
		uses(l, 2, 1)
		if n := fill(1); n != 1 {
			t.Errorf("beside another tenant, with 9 in flight, one that uses much gets %d more, want 1", n)
		}
		if n := fill(2); n != 10 {
			t.Errorf("with 10 in flight, one that uses little gets %d more, want 10", n)
		}
		p.End(Result{})
	})
}

func TestTheUseOfATenantIsItsMean(t *testing.T) {
	x := new(tenant)
	x.add(4, 0)
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{{0, 0}, {useLife, 2}, {2 * useLife, 3}} {
		if got := x.useAt(c.at); got != c.want {
			t.Errorf("4 in flight for %v: use %g, want %g", c.at, got, c.want)
		}
	}
	x.add(-4, 2*useLife)
	if got := x.useAt(3 * useLife); got != 1.5 {
		t.Errorf("after as long without any: use %g, want 1.5", got)
	}
	(*tenant)(nil).add(1, 0)
}

func TestANameIsATenantWhenItComesAgain(t *testing.T) {
	n := newTenants()
	for _, c := range []struct {
		name  uint64
		at    time.Duration
		known bool
	}{
		{7, time.Second, false}, {7, 2 * time.Second, false}, {8, 2 * time.Second, false}, {7, 3 * time.Second, true}, {7, 3 * time.Second, true},
		{8 + mostYoung, 3 * time.Second, false}, // 8 has the place
		{8, 5 * time.Second, true},
		{9, 5 * time.Second, false}, {9 + mostYoung, 9 * time.Second, false}, // 9 had time enough
		{9, 9 * time.Second, false}, {9 + mostYoung, 11 * time.Second, true},
	} {
		if got := n.of(c.name, c.at) != &n.newcomers; got != c.known {
			t.Errorf("name %d at %v: known %v, want %v", c.name, c.at, got, c.known)
		}
	}
	for name := range uint64(3 * mostTenants) {
		n.add(1000+name, 10*time.Second)
	}
	if len(n.list) != mostTenants || len(n.known) != mostTenants {
		t.Errorf("%d and %d tenants, want %d", len(n.list), len(n.known), mostTenants)
	}
	for i, x := range n.list {
		if x.at != i || n.known[x.name] != x {
			t.Fatalf("tenant %d: %+v", i, x)
		}
	}
}

// The tenant that uses much stays, and so does what it has in flight.
func TestTheTenantThatUsesLeastMakesRoom(t *testing.T) {
	n := newTenants()
	for name := range uint64(mostTenants) {
		n.add(name, 0).use = 1000
		n.known[name].add(1000, 0)
	}
	idle := n.list[500]
	idle.add(-1000, 0)
	idle.use = 0
	for name := range uint64(20 * mostTenants) {
		if n.known[idle.name] == nil {
			return
		}
		x := n.add(1e6+name, time.Second)
		x.use = 1000
		x.add(1000, time.Second)
	}
	t.Error("a tenant that uses nothing is never evicted")
}

func TestWaitersOfATenantThatUsesMuchLetOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, enter := equal(4)
		meet(enter, 1, 2)
		var permits []*Permit
		for range 4 {
			p, _ := enter(1, false)
			permits = append(permits, p)
		}
		time.Sleep(5 * useLife)
		uses(l, 1, 4)
		uses(l, 2, 1)
		_, light := enter(2, true)
		_, heavy := enter(1, true) // the newest goes first, if its tenant may enter
		permits[0].End(Result{})
		if light.entry.permit == nil || heavy.entry.permit != nil {
			t.Error("the place that became free is not that of the tenant that uses less")
		}
		if known := l.tenants.known; known[1].waiting != 1 || known[2].waiting != 0 || known[2].inFlight != 1 {
			t.Errorf("%+v, %+v", known[1], known[2])
		}
		for _, p := range permits[1:] {
			p.End(Result{})
		}
		if heavy.entry.permit == nil {
			t.Error("a waiter of the heavy tenant waits though half of the places are free")
		}
	})
}

func TestInAFullQueueTheTenantWithMoreWaitersYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, enter := equal(3)
		meet(enter, 1, 2)
		for range 3 {
			enter(1, false)
		}
		_, light := enter(2, true)
		var heavy []*waiter
		for range 5 {
			_, w := enter(1, true)
			heavy = append(heavy, w)
		}
		if l.waiting != 3 || l.tenants.known[1].waiting != 2 || l.tenants.known[2].waiting != 1 {
			t.Errorf("%d wait, of the tenants %d and %d", l.waiting, l.tenants.known[1].waiting, l.tenants.known[2].waiting)
		}
		for i, w := range append(heavy, light) {
			select {
			case <-w.decided:
				if i >= 3 {
					t.Errorf("waiter %d was pushed out", i)
				}
			default:
				if i < 3 {
					t.Errorf("waiter %d was not pushed out", i)
				}
			}
		}
		l.giveUp(light, true)
		if l.tenants.known[2].waiting != 0 {
			t.Error("a waiter that has left still counts")
		}
	})
}

func TestReplaceKeepsTenantsUnlessNoneAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(name int) string { return fmt.Sprint(name) }
		s := MustNew(Options[int]{Tenant: of})
		var permits []*Permit
		for range 2 {
			p, _ := s.Acquire(t.Context(), 1)
			permits = append(permits, p)
			time.Sleep(youngFor)
		}
		check := func(want int) {
			t.Helper()
			if got := s.State().Tenants; got != want {
				t.Errorf("%d tenants, want %d", got, want)
			}
		}
		check(1)
		s.Replace(Options[int]{Tenant: of, SLO: time.Second})
		check(1)
		s.Replace(Options[int]{})
		check(0)
		p, _ := s.Acquire(t.Context(), 1)
		s.Replace(Options[int]{Tenant: of})
		check(0)
		for _, p := range append(permits, p) {
			p.End(Result{})
		}
		if n := s.State().InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

func TestATenantCostsNoAllocation(t *testing.T) {
	names := []string{"a", "b", "c"}
	count := func(options Options[int]) float64 {
		s := MustNew(options)
		return testing.AllocsPerRun(1000, func() {
			p, _ := s.Acquire(t.Context(), 1)
			p.End(Result{})
		})
	}
	without, with := count(Options[int]{}), count(Options[int]{Tenant: func(i int) string { return names[i] }})
	if with != without {
		t.Errorf("%g allocations, without tenants %g", with, without)
	}
}
