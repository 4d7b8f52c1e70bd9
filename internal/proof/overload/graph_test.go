package overload

import (
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

func travel(t *testing.T, g *Graph, load float64, limiters ...Limiter) (x *GraphResult) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { x = g.Run(limiters, load, 1) })
	return x
}

func graph(t *testing.T, name string) *Graph {
	t.Helper()
	for _, g := range Graphs() {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("no graph %q", name)
	return nil
}

func TestASeedSaysAllOfAGraph(t *testing.T) {
	g := graph(t, "half")
	run := func() *GraphResult { return travel(t, g, 2, &Fixed{Limit: 60}, &Fixed{Limit: 30}, &Fixed{Limit: 30}) }
	if one, two := run(), run(); !reflect.DeepEqual(one, two) {
		t.Errorf("two runs with one seed: %d and %d good", one.Good, two.Good)
	}
}

func TestAGraphDoesItsCapacityBehindALimitOfTheFront(t *testing.T) {
	for _, g := range Graphs() {
		for _, load := range []float64{0.8, 3} {
			x := travel(t, g, load, &Fixed{Limit: 60}, Nothing{}, Nothing{})
			want := min(load, 1) * g.Capacity() // of the mix that is offered
			if got := x.Goodput(); math.Abs(got/want-1) > 0.06 {
				t.Errorf("%s at %g: %.1f good answers a second, want %.1f", g.Name, load, got, want)
			}
		}
	}
}

func TestMostOfAGraphPrefersRequestsThatNeedLess(t *testing.T) {
	g := graph(t, "half, b narrow") // a can do 400 calls a second and b 100
	for load, want := range map[float64]float64{0.5: 100, 1: 200, 2: 300, 3: 400, 4: 400} {
		if got := g.Most(load); math.Abs(got-want) > 1e-6 {
			t.Errorf("at %g: %g a second, want %g", load, got, want)
		}
	}
}

func TestACallForARequestThatFailsIsWaste(t *testing.T) {
	g := graph(t, "both")
	x := travel(t, g, 0.5, Nothing{}, Nothing{}, &Fixed{})
	if x.Good != 0 || math.Abs(x.Wasted[1]-0.5) > 0.03 || x.Wasted[2] != 0 {
		t.Errorf("b sheds all: %d good, a wastes %.2f of its capacity and b %.2f, want 0, 0.5 and 0", x.Good, x.Wasted[1], x.Wasted[2])
	}
	g.InTurn = true
	x = travel(t, g, 0.5, Nothing{}, &Fixed{}, Nothing{})
	if x.Good != 0 || x.Shed[1] != x.Offered || x.Wasted[2] != 0 {
		t.Errorf("a sheds all, in turn: %d good, b wastes %.2f, want 0 and 0", x.Good, x.Wasted[2])
	}
}

func TestALatencyOfAGraphIsThatOfAllCalls(t *testing.T) {
	for name, want := range map[string]time.Duration{"both": 62 * ms, "both, in turn": 122 * ms} {
		x := travel(t, graph(t, name), 0.01, Nothing{}, Nothing{}, Nothing{})
		if longest := x.Latencies[len(x.Latencies)-1]; longest > want+ms || longest < want*4/5 {
			t.Errorf("%s: nothing waits, and the longest latency is %v, want nearly %v", name, longest, want)
		}
	}
}
