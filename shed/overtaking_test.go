package shed

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAPermitKnowsWhenItWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{epoch: time.Now()}
		c := l.configure(nil, limits{fixed: 10})[0]
		enter := func() *Permit {
			e, _ := l.enter(c, 0, 0, false)
			time.Sleep(time.Second)
			return e.permit
		}
		a, b, d := enter(), enter(), enter() // at 0, 1 and 2 s
		b.End(Result{})
		enter().End(Result{Failed: true})
		if a.overtakenAt != 3*time.Second || d.overtakenAt != 0 {
			t.Errorf("the first was overtaken after %v, want 3s; the last after %v, want not to be",
				a.overtakenAt, d.overtakenAt)
		}
		d.End(Result{})
		if a.overtakenAt != 3*time.Second {
			t.Errorf("when it is overtaken again, the first one says %v, want 3s", a.overtakenAt)
		}
		a.End(Result{})
		r := l.window.active[0]
		if first := r.untilOvertaken; r.completed.seen != 2 || first != 3*time.Second+2*time.Second {
			// b of 2 s is in the window before, which has ended; d took 2 s, a was overtaken after
			// 3 s
			t.Errorf("until they were overtaken or ended: %v in all, want 5s", first)
		}
	})
}
