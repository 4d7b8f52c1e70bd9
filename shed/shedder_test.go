package shed_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

func TestSharesAreNested(t *testing.T) {
	for _, tt := range []struct {
		limit   int
		entries [4]int
	}{
		{1, [4]int{2, 1, 1, 1}}, // an idle service serves everybody, and keeps a place
		{2, [4]int{2, 1, 1, 1}},
		{3, [4]int{3, 2, 1, 1}},
		{10, [4]int{10, 5, 3, 2}},
		{21, [4]int{21, 11, 7, 5}},
		{100, [4]int{100, 50, 30, 20}},
	} {
		s := byIndexUsing(t, asked(tt.limit), shed.Options[int]{
			Classes: []shed.Class{{Name: "critical"}, {Name: "writes"}, {Name: "reads"}, {Name: "tests"}},
		})
		filled := 0
		for class := 3; class >= 0; class-- {
			if entry := s.State().Classes[class].Entry; entry != tt.entries[class] {
				t.Errorf("limit %d: class %d enters below %d, want %d", tt.limit, class, entry, tt.entries[class])
			}
			s.admitted(tt.entries[class]-filled, class)
			filled = tt.entries[class]
			s.inFlight(filled)
			for below := class; below < 4; below++ {
				s.shed(below)
			}
		}
	}
}

// Rounded up, a share was once the whole limit: of 1 any share, of 10 one of 95 percent.
func TestTheLastPlaceIsForTheMostImportantClassAtEveryLimit(t *testing.T) {
	for _, first := range []int{100, 60} {
		for second := 1; second < first; second++ {
			for limit := 1; limit <= 30; limit++ {
				s := byIndexUsing(t, asked(limit), shed.Options[int]{
					Classes: []shed.Class{
						{Name: "critical", Share: first},
						{Name: "a", Share: second},
						{Name: "b", Share: second},
					},
				})
				taken := 0
				for class := 2; class > 0; class-- {
					for {
						if p, _ := s.Acquire(t.Context(), class); p == nil {
							break
						}
						taken++
					}
				}
				if taken == 0 {
					t.Fatalf("limit %d, shares %d and %d: an idle service sheds", limit, first, second)
				}
				if p, e := s.Acquire(t.Context(), 0); p == nil || e.InFlight > max(2, limit) {
					t.Fatalf("limit %d, shares %d and %d: behind %d others a critical request is %+v",
						limit, first, second, taken, e)
				}
			}
		}
	}
}

func TestMoreImportantRequestsCountInTheSharesOfOthers(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Classes: four, Limit: 10})
	critical := s.admitted(6, 0)
	s.shed(3)
	reads := s.admitted(2, 2)
	s.shed(2)
	end(reads...)
	s.shed(3)
	end(critical[0])
	s.inFlight(5)
}

func TestAClassThatWasClosedComesBackOverASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := byIndex(t, shed.Options[int]{
			Classes: []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}}, Limit: 40,
		})
		critical := s.admitted(20, 0)
		s.shed(1) // closed by critical requests alone
		end(critical...)
		other := s.admitted(1, 1)
		s.shed(1)
		for step := 1; step <= 4; step++ {
			time.Sleep(time.Second / 5)
			other = append(other, s.admitted(4, 1)...)
			s.shed(1)
		}
		time.Sleep(time.Second / 5)
		other = append(other, s.admitted(3, 1)...)
		s.inFlight(20)
		s.shed(1)
		end(other...)
		s.admitted(20, 1) // it had closed itself, and comes back at once
	})
}

// If each refusal began the second anew, a class with many requests would never come back.
func TestRequestsThatKeepComingDoNotKeepAClassClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := byIndex(t, shed.Options[int]{
			Classes: []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}}, Limit: 40,
		})
		critical := s.admitted(20, 0)
		s.shed(1)
		end(critical...)
		for range 1000 {
			s.Acquire(t.Context(), 1)
			time.Sleep(time.Millisecond)
		}
		s.inFlight(20)
	})
}

func TestAnIndexThatIsNoClassMeansTheLeastImportant(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Classes: four, Limit: 10})
	for i, index := range []int{-1, 4, math.MaxInt, math.MinInt, 3} {
		s.admitted(1, index)
		if got := s.State().Classes[3].InFlight; got != i+1 {
			t.Errorf("class %d: %d of the last class in flight, want %d", index, got, i+1)
		}
	}
	s = byIndex(t, shed.Options[int]{Limit: 1})
	s.admitted(1, 0)
	if classes := s.State().Classes; len(classes) != 1 || classes[0].Name != "all" || classes[0].InFlight != 1 {
		t.Errorf("classes %+v", classes)
	}
	unclassified := shed.MustNew(shed.Options[int]{Classes: four})
	if _, e := unclassified.Acquire(t.Context(), 0); e.Class != "tests" {
		t.Errorf("without Classify a request is of class %q", e.Class)
	}
}

func TestExemptRequestsAreCountedAndNothingElse(t *testing.T) {
	const health = -7
	var events []shed.Event
	s := byIndex(t, shed.Options[int]{
		Limit: 1, Exempt: func(r int) bool { return r == health },
		Observe: func(_ context.Context, _ int, e shed.Event) { events = append(events, e) },
	})
	s.admitted(1, 0)
	checks := s.admitted(3, health)
	s.shed(0)
	if state := s.State(); state.InFlight != 1 || state.Exempt != 3 || state.ExemptTotal != 3 ||
		state.Classes[0].Admitted != 1 {
		t.Errorf("%+v", state)
	}
	if want := (shed.Event{Verdict: shed.Admitted, Exempt: true, Limit: 1, InFlight: 1}); events[2] != want {
		t.Errorf("%+v, want %+v", events[2], want)
	}
	checks[0].Stream()
	end(checks...)
	end(checks...)
	if state := s.State(); state.Exempt != 0 || state.ExemptTotal != 3 || state.Streams != 0 {
		t.Errorf("%+v", state)
	}
}

func TestShadowCountsWhatItWouldShed(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Limit: 2, Mode: core.Shadow, MaxWait: time.Second})
	real := s.admitted(2, 0)
	var extra []*shed.Permit
	for range 3 {
		p, e := s.Acquire(t.Context(), 0)
		if p == nil || e.Verdict != shed.Admitted || !e.Shadow {
			t.Fatalf("%+v", e)
		}
		extra = append(extra, p)
	}
	want := stats.ShedderClassState{Name: "all", Share: 100, Entry: 2, InFlight: 2, Admitted: 2, Shadowed: 3}
	if state := s.State(); state.InFlight != 2 || state.Shadowed != 3 || state.Mode != core.Shadow ||
		state.Classes[0] != want {
		t.Errorf("%+v", state)
	}
	extra[0].Stream()
	end(extra...)
	end(extra...)
	end(real...)
	if state := s.State(); state.InFlight != 0 || state.Shadowed != 0 || state.Streams != 0 {
		t.Errorf("%+v", state)
	}
}

func TestADisabledShedderDoesNothing(t *testing.T) {
	s := byIndex(t, shed.Options[int]{
		Limit: 1, Mode: core.Disabled,
		Classify: func(int) int { t.Error("Classify was called"); return 0 },
		Observe:  func(context.Context, int, shed.Event) { t.Error("Observe was called") },
	})
	for range 3 {
		p, e := s.Acquire(t.Context(), 0)
		if p != nil || e.Verdict != shed.Admitted {
			t.Errorf("%v, %+v", p, e)
		}
		p.Stream()
		p.End(shed.Result{})
	}
	s.inFlight(0)
}

func TestObserveSeesEveryDecisionOnce(t *testing.T) {
	var events []shed.Event
	s := byIndex(t, shed.Options[int]{
		Classes: four, Limit: 2,
		Observe: func(_ context.Context, _ int, e shed.Event) { events = append(events, e) },
	})
	s.admitted(1, 3)
	s.admitted(1, 0)
	s.shed(1)
	want := []shed.Event{
		{Verdict: shed.Admitted, Class: "tests", Limit: 2, InFlight: 1},
		{Verdict: shed.Admitted, Class: "critical", Limit: 2, InFlight: 2},
		{Verdict: shed.Shed, Class: "writes", Limit: 2, InFlight: 2, Spread: 4 * time.Second},
	}
	for i := range want {
		if i >= len(events) || events[i] != want[i] {
			t.Fatalf("%+v, want %+v", events, want)
		}
	}
}

func TestNewReportsEveryMistake(t *testing.T) {
	_, err := shed.New(shed.Options[int]{
		SLO: -1, MaxInFlight: 2_000_000, MaxWait: 2 * time.Minute, MaxWaiting: -3, Mode: core.EnforceFor(25),
		Classes: []shed.Class{{Name: "a", Share: 40}, {Share: 50}, {Name: "a", Share: 101}},
	})
	if err == nil {
		t.Fatal("no mistake")
	}
	for _, mistake := range []string{
		"shed: slo: must be positive, or 0 for none (got -1ns)",
		"shed: max in flight: must be 1 to 1000000, or 0 for 10000 (got 2000000)",
		"shed: max wait: must be at most 1m0s, or 0 for no queue (got 2m0s)",
		"shed: max waiting: must be positive, or 0 for as many as the limit (got -3)",
		"shed: mode: must be enforce, shadow or disabled (got enforce 25%)",
		"shed: class 1: name: required",
		"shed: class 1: share: must be at most 40 percent, that of the class before (got 50)",
		`shed: class 2: name: there is another class "a"`,
		"shed: class 2: share: must be 1 to 100 percent, or 0 for the default (got 101)",
	} {
		if !strings.Contains(err.Error(), mistake) {
			t.Errorf("%v\ndoes not say %s", err, mistake)
		}
	}
	if _, err := shed.New(shed.Options[int]{Classes: make([]shed.Class, 17)}); err == nil ||
		!strings.Contains(err.Error(), "shed: classes: at most 16 (got 17)") {
		t.Error(err)
	}
	for text, o := range map[string]shed.Options[int]{
		"shed: max in flight: must be at least 2, as classes differ in their shares (got 1)": {MaxInFlight: 1, Classes: four},
		"shed: limit: must be at least 2, as classes differ in their shares (got 1)":         {Limit: 1, Classes: four},
		"shed: limit: must be at most max in flight, 5 (got 6)":                              {Limit: 6, MaxInFlight: 5},
		"shed: limit: must be 1 to 1000000, or 0 to find it (got -1)":                        {Limit: -1},
		"shed: limit: must be 1 to 1000000, or 0 to find it (got 1000001)":                   {Limit: 1_000_001},
	} {
		if _, err := shed.New(o); err == nil || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	if s, err := shed.New(shed.Options[int]{Limit: 20_000}); err != nil || s.State().Limit != 20_000 {
		t.Errorf("a limit above the default of MaxInFlight: %v", err)
	}
	if _, err := shed.New(shed.Options[int]{MaxInFlight: 1, Classes: []shed.Class{{Name: "a"}, {Name: "b", Share: 100}}}); err != nil {
		t.Error(err)
	}
	if _, err := shed.New(shed.Options[int]{MaxWaiting: 3}); err == nil ||
		!strings.Contains(err.Error(), "no request waits without a max wait: set it (got 3)") {
		t.Error(err)
	}
}

func TestDefaultSharesNeverExceedThatOfTheClassBefore(t *testing.T) {
	s := byIndex(t, shed.Options[int]{
		Classes: []shed.Class{
			{Name: "a"},
			{Name: "b", Share: 50},
			{Name: "c"},
			{Name: "d", Share: 10},
			{Name: "e"},
		},
	})
	for i, want := range []int{100, 50, 30, 10, 10} {
		if got := s.State().Classes[i].Share; got != want {
			t.Errorf("class %d: share %d, want %d", i, got, want)
		}
	}
}

func TestVerdictsHaveNames(t *testing.T) {
	for v, want := range map[shed.Verdict]string{shed.Admitted: "admitted", shed.Shed: "shed", shed.Left: "left", 0: "undecided"} {
		if v.String() != want {
			t.Errorf("%d: %s", v, v)
		}
	}
}
