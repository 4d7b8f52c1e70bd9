package admin_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

type line struct {
	Limiter, Rule                                           string
	Allowed, Denied, WouldDeny, Unavailable, Shed, Admitted []int64
}

type history struct {
	Every int64
	Times []int64
	All   line
	Rules []line
	Marks []struct {
		At   int64
		Text string
	}
}

func (s *site) history() (v history) {
	s.Helper()
	s.ask("GET", "/api/history", "", &v)
	return v
}

// pass lets time pass, and timers do what they do by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Rates of a page that has just been opened begin some seconds ago.
func TestASnapshotOfSomeSecondsAgoIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{Keys: admin.Shown}, perClient(2))
		for second := range 30 {
			s.visit("192.0.2.7")
			var v struct {
				At    int64
				Rules []struct{ Allowed, Denied int64 }
				Top   []struct{}
			}
			s.ask("GET", "/api/earlier", "", &v)
			age := time.Now().UnixMilli() - v.At
			if least := min(5000, int64(second)*1000); age < least || age > 10_000 || len(v.Top) > 0 {
				t.Errorf("after %d s: it is %d ms old, and has %d keys", second, age, len(v.Top))
			}
			if then := int64(second) - age/1000; v.Rules[0].Allowed+v.Rules[0].Denied != then {
				t.Errorf("after %d s: %+v, want the %d decisions of %d ms ago", second, v.Rules, then, age)
			}
			if text := s.send("GET", "/api/earlier", "").Body.String(); strings.Contains(text, "192.0.2.7") {
				t.Error("a key is in it")
			}
			pass(time.Second)
		}
	})
}

func TestThePageHasTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shadow := perClient(1)
		shadow.Name, shadow.Mode = "shadow", core.Shadow
		s := newSite(t, admin.Options{}, perClient(2), shadow)
		begun := time.Now().UnixMilli()
		if v := s.history(); len(v.Times) != 1 || v.All.Allowed != nil || v.Every != 5000 {
			t.Errorf("at the start: %+v", v)
		}
		for range 3 {
			s.visit("192.0.2.7")
		}
		pass(6 * time.Second)
		v := s.history()
		if !slices.Equal(v.Times, []int64{begun, begun + 5000}) || !slices.Equal(v.All.Allowed, []int64{2}) ||
			!slices.Equal(v.All.Denied, []int64{1}) || v.All.Shed != nil {
			t.Errorf("after 5 s: %+v", v)
		}
		if len(v.Rules) != 2 || v.Rules[0].Rule != "per-client" || !slices.Equal(v.Rules[0].Denied, []int64{1}) ||
			v.Rules[0].WouldDeny != nil || !slices.Equal(v.Rules[1].WouldDeny, []int64{2}) {
			t.Errorf("its rules: %+v", v.Rules)
		}
		pass(time.Hour)
		s.visit("192.0.2.8")
		later := perClient(5)
		later.Name = "later"
		if err := s.limit.Replace([]nethttp.Rule{later}); err != nil {
			t.Fatal(err)
		}
		s.visit("192.0.2.9")
		pass(5 * time.Second)
		v = s.history()
		last := len(v.Times) - 1
		if last != 120 || v.Times[last]-v.Times[0] != 600_000 || len(v.All.Allowed) != last ||
			v.All.Allowed[last-1] != 2 || v.All.Denied != nil {
			t.Errorf("after an hour: %+v", v)
		}
		if got := v.Rules[0]; got.Rule != "later" || len(got.Allowed) != last || got.Allowed[0] != 0 ||
			got.Allowed[last-1] != 1 {
			t.Errorf("a rule that came later: %+v", got)
		}
	})
}

func TestThePageHasTenMinutesOfWhatIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
		page, err := admin.New(ann, admin.Sources{Stats: counts}, admin.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s := &site{T: t, page: page}
		full := func() *shed.Shedder[*http.Request] {
			shedder := shed.MustNew(shed.Options[*http.Request]{Limit: 1})
			for range 3 {
				shedder.Acquire(t.Context(), httptest.NewRequest("GET", "/", nil))
			}
			return shedder
		}
		counts.WatchShedder("api", full())
		pass(6 * time.Second)
		counts.WatchShedder("api", shed.MustNew(shed.Options[*http.Request]{})) // counts from zero
		pass(5 * time.Second)
		counts.WatchShedder("api", full())
		pass(5 * time.Second)
		if v := s.history(); !slices.Equal(v.All.Shed, []int64{2, 0, 2}) ||
			!slices.Equal(v.All.Admitted, []int64{1, 0, 1}) {
			t.Errorf("%+v", v.All)
		}
	})
}

// changing is a policy and a breaker that change.
type changing struct {
	failing
	mu          sync.Mutex
	applied     time.Time
	differences []string
	state       string
	since       time.Time
	opened      int64
}

func (c *changing) Failure() (time.Time, error) { return time.Time{}, nil }

func (c *changing) Applied() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied
}

func (c *changing) Differences() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.differences
}

func (c *changing) breaker() backends.BreakerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return backends.BreakerStatus{State: c.state, Since: c.since, Opened: c.opened}
}

// change makes the breaker another, which has opened so often since.
func (c *changing) change(state string, opened int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.since, c.opened = state, time.Now(), c.opened+opened
}

func (c *changing) apply(differences ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied, c.differences = time.Now(), differences
}

func (s *site) marks() (texts []string) {
	s.Helper()
	for _, m := range s.history().Marks {
		texts = append(texts, time.UnixMilli(m.At).UTC().Format("04:05 ")+m.Text)
	}
	return texts
}

func TestThePageMarksWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := &changing{applied: time.Now().Add(-time.Hour), state: "closed", since: time.Now(), opened: 3}
		counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
		counts.WatchBreaker("redis", world.breaker)
		api := counts.Limiter("api")
		limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient(1)}, Observer: api})
		page, err := admin.New(ann,
			admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"api": limit}, Policy: world},
			admin.Options{Changes: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s := &site{T: t, page: page}
		pass(7 * time.Second)
		if got := s.marks(); got != nil {
			t.Errorf("what was so at the start is marked: %q", got)
		}
		s.ask("POST", "/api/mode", `{"Rule":"per-client","Mode":"shadow","Minutes":1,"Why":"ticket 7"}`, nil) // at 0:07
		if got := s.marks(); !slices.Equal(got, []string{"00:07 rule per-client: shadow (ann: ticket 7)"}) {
			t.Errorf("a change by the page: %q", got)
		}
		pass(4 * time.Second) // at 0:11
		world.apply("a", "b", "c", "d", "e")
		pass(5 * time.Second) // at 0:16
		world.change("open", 1)
		pass(5 * time.Second) // at 0:21
		world.change("half-open", 0)
		pass(5 * time.Second) // at 0:26
		world.change("open", 1)
		pass(5 * time.Second) // at 0:31
		world.change("closed", 0)
		pass(5 * time.Second) // at 0:36
		world.change("closed", 1)
		pass(25 * time.Second) // at 1:01, before the override ends
		limitOf := core.Override{Limit: limits.FixedWindow(limits.PerDay(9)), Until: time.Now().Add(2 * time.Second)}
		if err := limit.Override("per-client", limitOf); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		want := []string{
			"00:07 rule per-client: shadow (ann: ticket 7)",
			"00:11 policy weir.yaml: applied: a; b; c; and 2 more",
			"00:16 breaker redis: opened",
			"00:31 breaker redis: closed",
			"00:40 breaker redis: opened, and closed again",
			"01:05 rule per-client: as given",
		}
		if got := s.marks(); !slices.Equal(got, want) {
			t.Errorf("marks:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		pass(11 * time.Minute)
		if got := s.marks(); got != nil {
			t.Errorf("ten minutes later: %q", got)
		}
	})
}

// A program may drop its page: the timer then ends.
func TestAPageThatNobodyServesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(stats.Options{})
		looks := 0
		counts.WatchBreaker("redis", func() backends.BreakerStatus {
			looks++
			return backends.BreakerStatus{State: "closed"}
		})
		page, err := admin.New(ann, admin.Sources{Stats: counts}, admin.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		if looks != 2 {
			t.Errorf("%d looks after 5 s", looks)
		}
		runtime.KeepAlive(page)
		runtime.GC()
		looks = 0
		pass(time.Minute)
		if looks != 0 {
			t.Errorf("%d looks for nobody", looks)
		}
	})
}

func TestAHistoryOfSomethingThatPanicsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{})
		s.counts.WatchBreaker("redis", func() backends.BreakerStatus { panic("a mistake of the program") })
		pass(11 * time.Second)
		if got := strings.Count(s.logged(), "the history lacks a sample"); got != 2 {
			t.Errorf("%d lines: %s", got, s.logged())
		}
		s.counts.WatchBreaker("redis", func() backends.BreakerStatus { return backends.BreakerStatus{State: "closed"} })
		pass(5 * time.Second)
		if v := s.history(); len(v.Times) != 2 || v.Times[1]-v.Times[0] != 15_000 {
			t.Errorf("it does not go on: %+v", v)
		}
	})
}
