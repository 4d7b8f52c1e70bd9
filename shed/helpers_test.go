package shed_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/shed"
)

// byIndex sheds requests that are the index of their class.
func byIndex(t *testing.T, options shed.Options[int]) *story {
	t.Helper()
	if options.Classify == nil {
		options.Classify = func(class int) int { return class }
	}
	s, err := shed.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return &story{t, s}
}

// byIndexUsing is byIndex with an algorithm that finds the limit.
func byIndexUsing(t *testing.T, a shedlimit.Algorithm, options shed.Options[int]) *story {
	t.Helper()
	if options.Classify == nil {
		options.Classify = func(class int) int { return class }
	}
	return &story{t, using(t, a, options)}
}

// using returns a shedder whose limit a finds.
func using[R any](t *testing.T, a shedlimit.Algorithm, options shed.Options[R]) *shed.Shedder[R] {
	t.Helper()
	s, err := shedlimit.New(options, a)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*shed.Shedder[R])
}

type story struct {
	t *testing.T
	*shed.Shedder[int]
}

// admitted begins n requests of a class, and returns them.
func (s *story) admitted(n, class int) []*shed.Permit {
	s.t.Helper()
	permits := make([]*shed.Permit, n)
	for i := range permits {
		p, e := s.Acquire(context.Background(), class)
		if p == nil || e.Verdict != shed.Admitted {
			s.t.Fatalf("request %d of %d of class %d: %+v, want it admitted", i+1, n, class, e)
		}
		permits[i] = p
	}
	return permits
}

// shed asserts that a request of a class is shed.
func (s *story) shed(class int) {
	s.t.Helper()
	if p, e := s.Acquire(context.Background(), class); p != nil || e.Verdict != shed.Shed {
		s.t.Fatalf("a request of class %d: %+v, want it shed", class, e)
	}
}

// inFlight asserts how many requests are in flight.
func (s *story) inFlight(want int) {
	s.t.Helper()
	if got := s.State().InFlight; got != want {
		s.t.Fatalf("%d in flight, want %d", got, want)
	}
}

func end(permits ...*shed.Permit) {
	for _, p := range permits {
		p.End(shed.Result{})
	}
}

var four = []shed.Class{
	{Name: "critical"}, {Name: "writes", Share: 95}, {Name: "reads", Share: 80}, {Name: "tests", Share: 60},
}

type request = *http.Request
