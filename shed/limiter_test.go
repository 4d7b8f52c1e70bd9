package shed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

func TestAnAlgorithmIsNotToldWhatAnotherHasSeen(t *testing.T) {
	s := MustNew(Options[int]{Limit: 1})
	first, _ := s.Acquire(t.Context(), 0)
	first.End(Result{})
	s.Acquire(t.Context(), 0)
	if p, _ := s.Acquire(t.Context(), 0); p != nil {
		t.Error("a request above the limit begins")
	}
	next := &noting{limit: 3}
	s.given, s.limiter.algorithm = next, nil // as if Replace could name it
	if err := s.Replace(Options[int]{}); err != nil {
		t.Fatal(err)
	}
	got := next.last
	if got.Completed+got.Admitted+got.Shed+len(got.Routes) != 0 || got.InFlight != 1 || got.PeakInFlight != 1 ||
		len(got.Ages) != 1 {
		t.Errorf("%+v", got)
	}
	if got.Limit != 1 || got.Elapsed != 0 || s.State().Limit != 3 {
		t.Errorf("it does not start from the limit in force: %+v, limit %d", got, s.State().Limit)
	}
}

// noting is an algorithm with a limit that keeps its last Sample.
type noting struct {
	limit int
	last  shedlimit.Sample
}

func (n *noting) Update(s shedlimit.Sample) int {
	n.last = s
	return n.limit
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
			Limit: 2, MaxWait: time.Second,
			Classes: []Class{
				{Name: "critical"},
				{Name: "other", Share: 50},
			}, Classify: func(class int) int { return class },
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
			Limit: 4, Classes: []Class{{Name: "critical"}, {Name: "other", Share: 50}}, Classify: func(class int) int { return class },
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
