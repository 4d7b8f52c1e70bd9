package shed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shed"
)

// In each second one request begins and ends, and repeats are shed.
func TestClientsComeBackWiderApartWhileMostAreShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shed.MustNew(shed.Options[int]{Limit: 1})
		var longest time.Duration
		run := func(seconds, repeats int) {
			for range seconds {
				p, _ := s.Acquire(t.Context(), 0)
				if p == nil {
					t.Fatal("shed, though nothing was in flight")
				}
				for range repeats {
					_, event := s.Acquire(t.Context(), 0)
					longest = event.Spread
				}
				time.Sleep(time.Second)
				p.End(shed.Result{})
			}
		}
		for _, c := range []struct {
			seconds, repeats int
			want             time.Duration
		}{
			{3, 9, 4 * time.Second},  // not seen for long enough
			{5, 1, 16 * time.Second}, // what was seen before the last period began
			{12, 1, 4 * time.Second}, // one for each
			{12, 2, 8 * time.Second},
			{12, 3, 12 * time.Second},
			{12, 4, 16 * time.Second},
			{12, 40, 16 * time.Second},
			{12, 1, 4 * time.Second},
		} {
			if run(c.seconds, c.repeats); longest != c.want {
				t.Errorf("%d shed for each: %v, want %v", c.repeats, longest, c.want)
			}
		}
	})
}
