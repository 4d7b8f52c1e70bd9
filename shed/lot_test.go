package shed

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Services of different releases must agree, so lots never change.
func TestLotsNeverChange(t *testing.T) {
	for name, want := range map[string]uint32{"0af7651916cd43dd8448eb211c80319c": 222219, "a": 270584, "b": 746501} {
		if got := lotOf(name); got != want {
			t.Errorf("lot of %q: %d, want %d", name, got, want)
		}
	}
}

func TestLotsAreSpread(t *testing.T) {
	var tenths [10]int
	for i := range 10_000 {
		tenths[lotOf(fmt.Sprint("request ", i))*10/lots]++
	}
	for i, n := range tenths {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 10,000 lots are in tenth %d, want about 1,000", n, i)
		}
	}
}

// admittedAt returns which of 1,000 names a shedder with a limit of 100 admits while so many
// requests of the first class are in flight.
func admittedAt(t *testing.T, inFlight, class int, classes []Class) (names map[string]bool) {
	t.Helper()
	names = make(map[string]bool)
	synctest.Test(t, func(*testing.T) {
		type request struct {
			name  string
			class int
		}
		s := MustNew(Options[request]{Limit: 100, Classes: classes, Lot: func(r request) string { return r.name },
			Classify: func(r request) int { return r.class }})
		for i := 0; s.State().InFlight < inFlight; i++ {
			s.Acquire(context.Background(), request{fmt.Sprint("first ", i), 0})
		}
		for i := range 1000 {
			name := fmt.Sprint("name ", i)
			p, _ := s.Acquire(context.Background(), request{name, class})
			if p != nil {
				names[name] = true
				p.End(Result{})
			}
		}
	})
	return names
}

func TestAFullerServiceShedsMoreLotsAndKeepsTheOthers(t *testing.T) {
	two := []Class{{Name: "first"}, {Name: "second"}}
	for _, c := range []struct {
		inFlight, class int
		classes         []Class
		least, most     int
	}{
		{19, 0, nil, 1000, 1000}, {60, 0, nil, 450, 550}, {80, 0, nil, 200, 300}, {99, 0, nil, 5, 25},
		{49, 0, two, 1000, 1000}, {75, 0, two, 450, 550}, {9, 1, two, 1000, 1000}, {30, 1, two, 450, 550}, {50, 1, two, 0, 0},
	} {
		got := admittedAt(t, c.inFlight, c.class, c.classes)
		if len(got) < c.least || len(got) > c.most {
			t.Errorf("class %d of %d, %d in flight: %d of 1000 admitted, want %d to %d", c.class, len(c.classes), c.inFlight, len(got), c.least, c.most)
		}
	}
	half, quarter := admittedAt(t, 60, 0, nil), admittedAt(t, 80, 0, nil)
	for name := range quarter {
		if !half[name] {
			t.Errorf("%s is admitted by the fuller of two services alone", name)
		}
	}
}

func TestRequestsWithoutANameGetALotEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[int]{Limit: 100, Lot: func(int) string { return "" }})
		for range 1000 {
			s.Acquire(context.Background(), 0)
		}
		if got := s.State().InFlight; got < 90 || got > 100 {
			t.Errorf("%d in flight, want nearly the limit of 100: a request has the first lot soon", got)
		}
	})
}

// A freed place goes to the newest waiter whose lot may enter. Only so many are looked at, since
// all that is done under the lock.
func TestFewWaitersArePassedOverForTheirLots(t *testing.T) {
	for newer, want := range map[int]bool{mostPassed - 1: true, mostPassed: false} {
		synctest.Test(t, func(t *testing.T) {
			l := &limiter{epoch: time.Now()}
			c := l.configure(nil, limits{fixed: 10, maxWaiting: 100})[0]
			first, _ := l.enter(c, 0, 0, false)
			for range 9 {
				l.enter(c, 0, 0, false)
			}
			_, w := l.enter(c, 0, 0, true)
			for range newer {
				l.enter(c, 0, lots-1, true)
			}
			first.permit.End(Result{})
			if got := w.entry.permit != nil; got != want {
				t.Errorf("behind %d newer waiters with the last lot one with the first is let in: %v, want %v", newer, got, want)
			}
		})
	}
}
