package stats_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

// newShedder returns a shedder with room for two requests, of which one may be of the class
// other. A request is the index of its class; 2 is exempt.
func newShedder(mode core.Mode) *shed.Shedder[int] {
	return shed.MustNew(shed.Options[int]{
		Classes:  []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}},
		Classify: func(class int) int { return class },
		Exempt:   func(class int) bool { return class == 2 },
		Limit:    2, Mode: mode,
	})
}

func TestAShedderShowsItsClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		enforced, shadow := newShedder(core.Enforce), newShedder(core.Shadow)
		counts.WatchShedder("api", enforced)
		counts.WatchShedder("next", shadow)
		for _, s := range []*shed.Shedder[int]{enforced, shadow} {
			for _, class := range []int{1, 1, 0, 0, 2} { // the second of other and of critical find no room
				s.Acquire(t.Context(), class)
			}
		}
		time.Sleep(3 * time.Second)
		shot := counts.Snapshot()
		if len(shot.Shedders) != 2 || shot.Shedders[0].Name != "api" || shot.Shedders[1].Name != "next" {
			t.Fatalf("got %+v", shot.Shedders)
		}
		api := shot.Shedders[0]
		if api.Mode != core.Enforce || api.Limit != 2 || api.MaxInFlight != 10_000 || api.InFlight != 2 ||
			api.Exempt != 1 || api.ExemptTotal != 1 || api.Oldest != 3*time.Second {
			t.Errorf("got %+v", api)
		}
		want := []stats.ShedderClassState{
			{Name: "critical", Share: 100, Entry: 2, InFlight: 1, Admitted: 1, Shed: 1},
			{Name: "other", Share: 50, Entry: 1, InFlight: 1, Admitted: 1, Shed: 1},
		}
		if !slices.Equal(api.Classes, want) {
			t.Errorf("got  %+v\nwant %+v", api.Classes, want)
		}
		for i := range want {
			want[i].Shed, want[i].Shadowed = 0, 1
		}
		if got := shot.Shedders[1]; got.Mode != core.Shadow || got.Shadowed != 2 || !slices.Equal(got.Classes, want) {
			t.Errorf("got %+v", got)
		}
		text, err := json.Marshal(shot)
		if err != nil || !strings.Contains(string(text), `"Shedders":[{"Name":"api","Mode":"enforce","Limit":2,`) {
			t.Errorf("as JSON (%v): %s", err, text)
		}
	})
}

// Two series of the same name are an error for a whole scrape.
func TestClassesWhoseNamesLookAlikeAreCountedTogether(t *testing.T) {
	counts := stats.New(quietly())
	shedder := shed.MustNew(shed.Options[int]{
		Classes:  []shed.Class{{Name: "a\xff"}, {Name: "b"}, {Name: "a\xfe"}},
		Classify: func(class int) int { return class },
	})
	counts.WatchShedder("api", shedder)
	for class := range 3 {
		shedder.Acquire(t.Context(), class)
	}
	classes := counts.Snapshot().Shedders[0].Classes
	if len(classes) != 2 || classes[0].Name != "a\uFFFD" || classes[0].Admitted != 2 || classes[0].InFlight != 2 ||
		classes[1].Name != "b" || classes[1].Admitted != 1 {
		t.Errorf("got %+v", classes)
	}
}

// A part of a program that is not there is left out, by the line that watches it.
func TestWhatIsNilIsNotWatched(t *testing.T) {
	counts := stats.New(quietly())
	for range 2 { // what was watched is left out, too
		counts.WatchShedder("api", nil)
		counts.WatchShedder("api", (*shed.Shedder[int])(nil))
		counts.WatchMemory("memory", nil)
		counts.WatchBreaker("redis", nil)
		counts.WatchLeases("redis", nil)
		counts.WatchPolicy("policy", nil)
		counts.Limiter("api").ObserveLimiter(nil)
		shot := counts.Snapshot()
		n := len(shot.Shedders) + len(shot.Memories) + len(shot.Breakers) + len(shot.Leases) + len(shot.Policies)
		if n > 0 {
			t.Errorf("got %d parts in %+v, want none", n, shot)
		}
		counts.WatchShedder("api", newShedder(core.Enforce))
		counts.WatchMemory("memory", memory.MustNew(memory.Options{}))
		counts.WatchBreaker("redis", func() backends.BreakerStatus {
			return backends.BreakerStatus{State: "closed", Since: time.Now()}
		})
		counts.WatchLeases("redis", func() backends.LeaseCounts { return backends.LeaseCounts{} })
	}
	if b := counts.Backend("redis", nil); !isnil.Of(b) {
		t.Errorf("got %v, want nil", b)
	}
}

func TestAShedderThatNewHasNotMadeHasAZeroState(t *testing.T) {
	counts := stats.New(quietly())
	counts.WatchShedder("api", new(shed.Shedder[int]))
	if got := counts.Snapshot().Shedders; len(got) != 1 || got[0].Limit != 0 || len(got[0].Classes) != 0 {
		t.Errorf("got %+v, want one shedder without classes", got)
	}
}

func TestAnotherShedderOfTheSameNameIsWatched(t *testing.T) {
	counts := stats.New(quietly())
	first, second := newShedder(core.Enforce), newShedder(core.Disabled)
	counts.WatchShedder("api", first)
	counts.WatchShedder("api", second)
	if got := counts.Snapshot().Shedders; len(got) != 1 || got[0].Mode != core.Disabled {
		t.Errorf("got %+v", got)
	}
}

func TestWhatIsShedAheadIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		s := shed.MustNew(shed.Options[int]{Limit: 100, Needs: func(int) string { return "all" }})
		counts.WatchShedder("api", s)
		ahead := 0
		for range 100 {
			p, e := s.Acquire(t.Context(), 0)
			p.End(shed.Result{Failed: true, Refused: true})
			if e.Ahead {
				ahead++
			}
		}
		if got := counts.Snapshot().Shedders[0].Classes[0]; ahead < 50 || got.Ahead != int64(ahead) || got.Shed != got.Ahead {
			t.Errorf("%d are shed ahead, counted as %+v", ahead, got)
		}
		for _, m := range counts.Snapshot().Metrics() {
			if m.Name == "weir_shed_ahead_total" && (len(m.Series) != 1 || m.Series[0].Value != float64(ahead)) {
				t.Errorf("the metric has %+v, want %d", m.Series, ahead)
			}
		}
	})
}

func TestTheLogSaysWhenSheddingBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		counts := stats.New(stats.Options{Logger: logger})
		shedder := newShedder(core.Enforce)
		shedder.Acquire(t.Context(), 1) // fills the share of other
		shedder.Acquire(t.Context(), 1) // shed before anybody watches
		counts.WatchShedder("api", shedder)
		time.Sleep(time.Minute + 500*time.Millisecond) // between two looks
		synctest.Wait()
		if got := text(); got != "" {
			t.Errorf("a shedder that sheds nothing: %s", got)
		}
		for range 100 {
			shedder.Acquire(t.Context(), 1)
			shedder.Acquire(t.Context(), 2) // exempt
			time.Sleep(time.Second)
		}
		synctest.Wait()
		during := text()
		if want := `level=WARN msg="weir: a shedder sheds" shedder=api class=other shed=5 limit=2` + "\n" +
			`level=INFO msg="weir: shed" shedder=api class=other shed=60 limit=2` + "\n"; during != want {
			t.Errorf("got\n%swant\n%s", during, want)
		}
		if err := shedder.Replace(shed.Options[int]{Classes: []shed.Class{{Name: "new"}}, Limit: 2}); err != nil {
			t.Fatal(err) // the class is left out, and its end is logged all the same
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := text(),
			`level=INFO msg="weir: a shedder sheds no more" shedder=api class=other shed=100 limit=2 after=1m35s`+
				"\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		for range 3 {
			shedder.Acquire(t.Context(), 0) // of the new class; one finds room
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		got, want := text(), `level=WARN msg="weir: a shedder sheds" shedder=api class=new shed=2 limit=2`+"\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// A program that only logs keeps nothing of its Stats.
func TestTheLogGoesOnThoughNobodyHoldsTheStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		shedder := newShedder(core.Enforce)
		stats.New(stats.Options{Logger: logger}).WatchShedder("api", shedder)
		runtime.GC()
		for range 9 {
			shedder.Acquire(t.Context(), 1)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		got, want := text(), `level=WARN msg="weir: a shedder sheds" shedder=api class=other shed=8 limit=2`+"\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestTheLogOfAShadowIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		counts := stats.New(stats.Options{Logger: logger})
		shedder := newShedder(core.Shadow)
		counts.WatchShedder("api", shedder)
		for range 9 {
			shedder.Acquire(t.Context(), 1)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := text(); got != "" {
			t.Error(got)
		}
	})
}

// Names of classes are the program's. What a client sends is in no line.
func TestTheLogOfAShedderNamesNoClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := logged()
		counts := stats.New(stats.Options{Logger: logger, Key: func(string, string) string { return "never" }})
		shedder := shed.MustNew(shed.Options[*http.Request]{Limit: 1})
		counts.WatchShedder("api", shedder)
		r, _ := http.NewRequest("GET", "http://example.com/secret", nil)
		for range 2 {
			shedder.Acquire(t.Context(), r)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := text(); !strings.Contains(got, "class=all shed=1") || strings.Contains(got, "secret") ||
			strings.Contains(got, "never") {
			t.Error(got)
		}
	})
}
