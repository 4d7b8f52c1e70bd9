package shed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

func replace(t *testing.T, s *story, options shed.Options[int]) {
	t.Helper()
	if options.Classify == nil {
		options.Classify = func(class int) int { return class }
	}
	if err := s.Replace(options); err != nil {
		t.Fatal(err)
	}
}

func TestReplaceKeepsWhatWasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &scripted{limits: []int{10, 20, 20}}
		s := byIndexUsing(t, a, shed.Options[int]{Classes: four})
		permits := s.admitted(5, 0)
		time.Sleep(time.Minute)
		permits = append(permits, s.admitted(1, 3)...)
		replace(t, s, shed.Options[int]{
			Classes:     []shed.Class{{Name: "tests"}, {Name: "critical", Share: 50}},
			SLO:         time.Second,
			MaxInFlight: 30,
		})
		if len(a.samples) != 2 {
			t.Fatalf("the algorithm was asked again: %+v", a.last())
		}
		state := s.State()
		want := stats.ShedderClassState{Name: "tests", Share: 100, Entry: 20, InFlight: 1, Admitted: 1}
		if state.Limit != 20 || state.Classes[0] != want {
			t.Errorf("%+v, want %+v", state, want)
		}
		want = stats.ShedderClassState{Name: "critical", Share: 50, Entry: 10, InFlight: 5, Admitted: 5}
		if state.Classes[1] != want {
			t.Errorf("%+v, want %+v", state, want)
		}
		end(permits...)
		s.inFlight(0)
		for _, c := range s.State().Classes {
			if c.InFlight != 0 {
				t.Errorf("%+v", c)
			}
		}
		time.Sleep(time.Minute)
		s.admitted(1, 0)
		if got := a.last(); got.SLO != time.Second || got.MaxLimit != 30 || got.Elapsed != 2*time.Minute-time.Minute {
			t.Errorf("%+v", got)
		}
	})
}

func TestALimitThatIsFoundStaysUnlessOneIsSet(t *testing.T) {
	s := byIndex(t, shed.Options[int]{})
	replace(t, s, shed.Options[int]{SLO: time.Second})
	if updates := s.State().Updates; updates != 1 {
		t.Errorf("%d updates, want 1: the default algorithm began anew", updates)
	}
	replace(t, s, shed.Options[int]{Limit: 7})
	replace(t, s, shed.Options[int]{})
	if updates := s.State().Updates; updates != 3 {
		t.Errorf("%d updates, want 3", updates)
	}
}

func TestReplaceWithAMistakeChangesNothing(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Limit: 1})
	if err := s.Replace(shed.Options[int]{SLO: -1, Mode: core.Disabled}); err == nil {
		t.Error("no mistake")
	}
	s.admitted(1, 0)
	s.shed(0)
}

func TestALimitIsFoundFromTheOneInForce(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Limit: 7})
	replace(t, s, shed.Options[int]{})
	if limit := s.State().Limit; limit != 7 {
		t.Errorf("limit %d", limit)
	}
	replace(t, s, shed.Options[int]{MaxInFlight: 2})
	if limit := s.State().Limit; limit != 2 {
		t.Errorf("limit %d", limit)
	}
}

func TestALimitMayFallBelowWhatIsInFlight(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Limit: 5})
	permits := s.admitted(5, 0)
	replace(t, s, shed.Options[int]{Limit: 2})
	end(permits[:3]...)
	s.shed(0)
	end(permits[3])
	s.admitted(1, 0)
	s.shed(0)
}

func TestAClassThatComesBackHasItsCounters(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Classes: four, Limit: 10})
	permits := s.admitted(3, 0)
	replace(t, s, shed.Options[int]{Limit: 10})
	end(permits[0])
	s.inFlight(2)
	replace(t, s, shed.Options[int]{Classes: four, Limit: 10})
	if got := s.State().Classes[0]; got.Admitted != 3 || got.InFlight != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWaitersOfAClassThatIsLeftOutWaitAmongTheLeastImportant(t *testing.T) {
	options := shed.Options[int]{Classes: four, MaxWaiting: 10, Limit: 2, MaxWait: time.Minute}
	queued(t, options, func(t *testing.T, l *line, running []*shed.Permit) {
		l.wait(t.Context(), "first", 0)
		l.wait(t.Context(), "second", 0)
		options.Classes = []shed.Class{{Name: "new"}, {Name: "last", Share: 100}}
		replace(t, l.story, options)
		l.wait(t.Context(), "new", 0)
		l.waiting(3)
		end(running[0])
		l.did("new admitted 0s")
		end(running[1])
		l.did("second admitted 0s")
		if classes := l.State().Classes; classes[1].InFlight != 1 || classes[1].Waiting != 1 {
			t.Errorf("%+v", classes)
		}
	})
}

func TestAModeChangesWhileRequestsAreUnderWay(t *testing.T) {
	options := shed.Options[int]{Limit: 1}
	s := byIndex(t, options)
	first := s.admitted(1, 0)
	options.Mode = core.Shadow
	replace(t, s, options)
	second := s.admitted(1, 0)
	options.Mode = core.Disabled
	replace(t, s, options)
	if p, e := s.Acquire(context.Background(), 0); p != nil || e.Verdict != shed.Admitted {
		t.Errorf("%+v", e)
	}
	options.Mode = core.Enforce
	replace(t, s, options)
	s.shed(0)
	end(second...)
	s.shed(0)
	end(first...)
	s.admitted(1, 0)
}

func TestNamesOfManyReplacesAreForgotten(t *testing.T) {
	s := byIndex(t, shed.Options[int]{Classes: []shed.Class{{Name: "0"}}, Limit: 1000})
	var permits []*shed.Permit
	for i := range 300 {
		permits = append(permits, s.admitted(1, 0)...)
		replace(t, s, shed.Options[int]{Classes: []shed.Class{{Name: string(rune('A' + i))}}, Limit: 1000})
	}
	s.inFlight(300)
	end(permits...)
	s.inFlight(0)
}
