package shed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// opaque is an algorithm whose values Go cannot compare, though their type is comparable.
type opaque struct{ of any }

func (opaque) Update(Sample) int { return 10 }

func TestReplaceTakesAnAlgorithmThatCannotBeCompared(t *testing.T) {
	s := MustNew(Options[int]{Algorithm: opaque{[]int{1}}})
	if err := s.Replace(Options[int]{Algorithm: opaque{[]int{1}}, Classes: []Class{{Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	if p, e := s.Acquire(t.Context(), 0); p == nil || e.Class != "other" {
		t.Errorf("%+v", e)
	}
}

// late is what a goroutine does that has read the clock and then waits for the lock: its time
// is older than that of those before it.
func late(l *limiter, by time.Duration, act func()) {
	l.epoch = l.epoch.Add(by)
	act()
	l.epoch = l.epoch.Add(-by)
}

func TestTimeNeverGoesBackUnderTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		s := MustNew(Options[int]{
			Algorithm: Fixed(2), MaxWait: time.Second,
			Classes: []Class{{Name: "critical"}, {Name: "other", Share: 50}}, Classify: func(class int) int { return class },
			Observe: func(_ context.Context, _ int, e Event) { waits = append(waits, e.Wait) },
		})
		time.Sleep(time.Minute)
		first, _ := s.Acquire(t.Context(), 0)
		var second *Permit
		late(&s.limiter, time.Second, func() { second, _ = s.Acquire(t.Context(), 0) })
		ages := s.limiter.sampleLocked(s.limiter.now()).Ages
		if len(ages) != 2 || ages[0] < ages[1] {
			t.Errorf("ages %v, want the longest first", ages)
		}
		go s.Acquire(t.Context(), 0)
		synctest.Wait()
		late(&s.limiter, time.Second, func() { first.End(Result{}) })
		synctest.Wait()
		if got := waits[len(waits)-1]; got < 0 {
			t.Errorf("a request waited for %v", got)
		}
		if s.State().InFlight != 2 {
			t.Errorf("%+v", s.State())
		}
		second.End(Result{})
	})
}

func TestAnIdleServiceAdmitsAClassThatHasJustBeenClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[int]{
			Algorithm: Fixed(4), Classes: []Class{{Name: "critical"}, {Name: "other", Share: 50}}, Classify: func(class int) int { return class },
		})
		time.Sleep(time.Minute)
		a, _ := s.Acquire(t.Context(), 0)
		b, _ := s.Acquire(t.Context(), 0)
		s.Acquire(t.Context(), 1) // closes the class
		a.End(Result{})
		b.End(Result{})
		late(&s.limiter, 10*time.Second, func() {
			if p, e := s.Acquire(t.Context(), 1); p == nil {
				t.Errorf("%+v", e)
			}
		})
	})
}
