package stats_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

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
