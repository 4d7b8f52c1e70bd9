package shed

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/overload"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// behind plays 400 requests a second to a shedder with Needs. Services behind it grant some.
type behind struct {
	t *testing.T
	*Shedder[int]
	granted, refused, ahead [2]int // by class, of the last play
}

func newBehind(t *testing.T, mode core.Mode) *behind {
	return &behind{
		t: t,
		Shedder: MustNew(Options[int]{Limit: 100, Mode: mode, Needs: func(int) string { return "both" },
			Classes: []Class{{Name: "first"}, {Name: "second"}}, Classify: func(c int) int { return c }}),
	}
}

func (b *behind) play(d time.Duration, class func(n int) int, grants func() bool) {
	b.t.Helper()
	b.granted, b.refused, b.ahead = [2]int{}, [2]int{}, [2]int{}
	for n := range int(d / (2500 * time.Microsecond)) {
		time.Sleep(2500 * time.Microsecond)
		c := class(n)
		p, e := b.Acquire(context.Background(), c)
		if p == nil {
			if !e.Ahead || e.Verdict != Shed {
				b.t.Fatalf("%+v, want it shed ahead or let in", e)
			}
			b.ahead[c]++
			continue
		}
		ok := grants()
		if ok {
			b.granted[c]++
		} else {
			b.refused[c]++
		}
		p.End(Result{Failed: !ok, Refused: !ok})
	}
}

func first(int) int    { return 0 }
func inTurn(n int) int { return n % 2 }
func all() bool        { return true }
func none() bool       { return false }

// rate grants so many requests a second, and ten at once.
func rate(n int) func() bool {
	tokens, at := 10.0, time.Now()
	return func() bool {
		tokens = min(10, tokens+time.Since(at).Seconds()*float64(n))
		at = time.Now()
		if tokens < 1 {
			return false
		}
		tokens--
		return true
	}
}

func TestWhatServicesBehindRefuseIsShedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBehind(t, core.Enforce)
		b.play(5*time.Second, first, all)
		if b.ahead[0] > 0 {
			t.Errorf("%d shed ahead, while services behind refuse none", b.ahead[0])
		}
		b.play(5*time.Second, first, rate(100))
		before := b.State().Classes[0].Ahead
		b.play(20*time.Second, first, rate(100))
		if got := int(b.State().Classes[0].Ahead - before); got != b.ahead[0] {
			t.Errorf("State says that %d more were shed ahead, want %d", got, b.ahead[0])
		}
		if b.granted[0] < 1900 || b.refused[0] > 300 {
			t.Errorf(
				"of 8000: %d granted and %d refused behind, want at least 1900 of 2000 that can be, and at most 300",
				b.granted[0], b.refused[0])
		}
	})
}

func TestTheMostImportantClassIsShedAheadLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBehind(t, core.Enforce)
		some := rate(200) // as many as the first class asks for
		b.play(10*time.Second, inTurn, some)
		b.play(10*time.Second, inTurn, some)
		if b.ahead[0] > 40 || b.ahead[1] < 1400 {
			t.Errorf("shed ahead: %d of the first class, %d of the second, 2000 of each; want few and most",
				b.ahead[0], b.ahead[1])
		}
	})
}

func TestNothingIsShedAheadSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBehind(t, core.Enforce)
		b.play(5*time.Second, first, all)
		b.play(30*time.Second, first, none)
		b.play(10*time.Second, first, none)
		if b.refused[0] < 10 || b.refused[0] > 100 {
			t.Errorf("%d of 4000 went on in 10 s of the outage, want 10 to 100", b.refused[0])
		}
		b.play(15*time.Second, first, all)
		b.play(5*time.Second, first, all)
		if b.ahead[0] > 0 {
			t.Errorf("%d of 2000 shed ahead, from 15 s after the outage on", b.ahead[0])
		}
	})
}

// A tenth more than succeed would be fewer each second.
func TestAServiceThatRefusesSomeAtAnyLoadGetsAll(t *testing.T) {
	for _, p := range []float64{0.15, 0.3, 0.6} {
		synctest.Test(t, func(t *testing.T) {
			b := newBehind(t, core.Enforce)
			random := rand.New(rand.NewPCG(1, 2))
			some := func() bool { return random.Float64() >= p }
			b.play(2*time.Minute, first, some)
			b.play(2*time.Minute, first, some)
			if b.ahead[0] > 960 {
				t.Errorf("%.2f refused at any load: %d of 48000 shed ahead from the third minute on, want at most 960",
					p, b.ahead[0])
			}
			full := rate(100)
			b.play(time.Minute, first, func() bool { return some() && full() })
			if part := float64(b.ahead[0]) / 24000; part < 0.1 && p < 0.5 {
				t.Errorf("%.2f refused at any load: %.3f shed ahead though the service is full, too", p, part)
			}
		})
	}
}

// Nine tenants ask for 20 a second each, a tenth for 400. Services behind grant 200 a second.
func TestATenantOverItsShareIsShedAheadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[int]{
			Limit: 1000, Needs: func(int) string { return "all" }, Tenant: strconv.Itoa,
		})
		grants := rate(200)
		var asked, ahead [10]int
		ask := func(tenant int) {
			asked[tenant]++
			p, _ := s.Acquire(t.Context(), tenant)
			if p == nil {
				ahead[tenant]++
				return
			}
			ok := grants()
			time.AfterFunc(10*time.Millisecond, func() { p.End(Result{Failed: !ok, Refused: !ok}) })
		}
		play := func(seconds int) {
			asked, ahead = [10]int{}, [10]int{}
			for n := range seconds * 400 {
				time.Sleep(2500 * time.Microsecond)
				ask(9)
				if n%20 < 9 {
					ask(n % 20)
				}
			}
		}
		play(20)
		play(20)
		for tenant := range 9 {
			if part := float64(ahead[tenant]) / float64(asked[tenant]); part > 0.05 {
				t.Errorf("%.2f of the requests of tenant %d are shed ahead, want at most 0.05", part, tenant)
			}
		}
		if part := float64(ahead[9]) / float64(asked[9]); part < 0.85 || part > 0.97 {
			t.Errorf("%.2f of the requests of the tenant with most are shed ahead, want 0.85 to 0.97", part)
		}
		time.Sleep(time.Second)
	})
}

func TestShadowShedsNothingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBehind(t, core.Shadow)
		b.play(5*time.Second, first, none)
		state := b.State()
		if c := state.Classes[0]; b.ahead[0] > 0 || c.Shadowed < 1000 || c.Ahead != c.Shadowed || state.Shadowed > 0 {
			t.Errorf("%d shed ahead, %+v; want none, and most counted in Shadowed", b.ahead[0], state)
		}
	})
}

// A Replace leaves out the class of a request after the request was classified.
func TestARequestOfARetiredClassIsShedAheadInTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replace := func() {}
		options := Options[int]{Limit: 100, Needs: func(int) string { replace(); return "both" },
			Classes: []Class{{Name: "first"}}}
		b := &behind{t: t, Shedder: MustNew(options)}
		b.play(5*time.Second, first, all)
		b.play(10*time.Second, first, rate(10))
		replaced := 0
		replace = func() {
			replaced++
			after := options
			after.Classes = []Class{{Name: strconv.Itoa(replaced)}}
			if err := b.Replace(after); err != nil {
				t.Fatal(err)
			}
		}
		p, e := b.Acquire(t.Context(), 0)
		for p != nil { // by lot a few go on
			p.End(Result{Failed: true, Refused: true})
			p, e = b.Acquire(t.Context(), 0)
		}
		c := b.State().Classes[0]
		if !e.Ahead || c.Name != strconv.Itoa(replaced) || c.Ahead != 1 || c.Shed != 1 {
			t.Errorf("%+v, %+v, want one shed ahead in the last class", e, c)
		}
	})
}

func TestEachNameIsShedAheadForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[string]{Limit: 100, Needs: func(name string) string { return name }})
		ahead := map[string]int{}
		for i := range 2000 {
			name := []string{"broken", "works", strconv.Itoa(i)}[i%3] // more than there is room for
			p, _ := s.Acquire(context.Background(), name)
			if p == nil {
				ahead[name]++
			}
			p.End(Result{Failed: name == "broken", Refused: name == "broken"})
			time.Sleep(time.Millisecond)
		}
		if len(ahead) != 1 || ahead["broken"] < 500 || len(s.needs.names) > maxNeeds {
			t.Errorf("shed ahead: %v, %d names", ahead, len(s.needs.names))
		}
	})
}

func TestAnAnswerOf503SaysThatAServiceBehindSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for status, want := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusInternalServerError: false, http.StatusOK: false} {
			ahead := 0
			s := MustNew(Options[*http.Request]{Needs: func(r *http.Request) string { return r.URL.Path },
				Observe: func(_ context.Context, _ *http.Request, e Event) {
					if e.Ahead {
						ahead++
					}
				}})
			handler := Handler(s,
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			for range 100 {
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
			if got := ahead > 50; got != want {
				t.Errorf("%d of 100 shed ahead of answers of %d", ahead, status)
			}
		}
	})
}

func TestNamesOfNeedsThatAreIdleMakeRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[string]{Limit: 1000, Needs: func(name string) string { return name }})
		refused := func(name string) (ahead bool) {
			for range 50 {
				p, e := s.Acquire(t.Context(), name)
				p.End(Result{Failed: true, Refused: true})
				ahead = ahead || e.Ahead
			}
			return ahead
		}
		for i := range maxNeeds {
			p, _ := s.Acquire(t.Context(), strconv.Itoa(i))
			p.End(Result{})
		}
		if !refused("no room") || len(s.needs.names) != maxNeeds {
			t.Errorf("%d names, or all that find no room go on", len(s.needs.names))
		}
		time.Sleep(needIdle + time.Second)
		for range 2 {
			p, _ := s.Acquire(t.Context(), "1") // still used
			p.End(Result{})
		}
		p, _ := s.Acquire(t.Context(), "new")
		p.End(Result{})
		if s.needs.names["new"] == nil || s.needs.names["1"] == nil || len(s.needs.names) != 2 {
			t.Errorf("%d names are left, want the one in use and the new one", len(s.needs.names))
		}
	})
}

func TestANameOtherIsNoneOfThoseWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[string]{Limit: 1000, Needs: func(name string) string { return name }})
		for _, name := range []string{"other", "second"} {
			p, _ := s.Acquire(t.Context(), name)
			p.End(Result{})
		}
		for i := range 500 { // most of which find no room, and are refused
			p, _ := s.Acquire(t.Context(), strconv.Itoa(i))
			p.End(Result{Failed: true, Refused: true})
		}
		for range 50 {
			p, e := s.Acquire(t.Context(), "other")
			if e.Ahead {
				t.Fatal("a request that needs what is named other is shed ahead for names without room")
			}
			p.End(Result{})
		}
	})
}

// graphLimiter is a Shedder as a service of a graph. All know the lots. The front sheds ahead; its
// own work is small, so it needs no limit that adapts.
type graphLimiter struct{ *Shedder[overload.Request] }

func newGraphLimiter(front bool) overload.Limiter {
	o := Options[overload.Request]{
		Lot: func(r overload.Request) string { return strconv.FormatFloat(r.Lot, 'g', -1, 64) },
	}
	if front {
		o = Options[overload.Request]{Needs: func(r overload.Request) string { return r.Route }, Limit: 1000}
	}
	return graphLimiter{MustNew(o)}
}

func (l graphLimiter) Enter(r overload.Request) (func(bool), bool) {
	p, _ := l.Acquire(context.Background(), r)
	if p == nil {
		return nil, false
	}
	return func(failed bool) { p.End(Result{Route: r.Route, Failed: failed, Refused: failed}) }, true
}

// Without Lot and Needs, 0.37 of the requests that could succeed do at 4 times the capacity of two
// services that each request needs, and 0.60 where half of them need a narrow one.
func TestServicesThatCallOthersDoLittleInVain(t *testing.T) {
	for _, g := range overload.Graphs() {
		for _, load := range []float64{0.8, 1.5, 2, 4} {
			for seed := range uint64(testrun.Sized(1, 5)) {
				synctest.Test(t, func(t *testing.T) {
					var limiters []overload.Limiter
					for i := range g.Services {
						limiters = append(limiters, newGraphLimiter(i == 0))
					}
					x := g.Run(limiters, load, seed+1)
					if got := x.Goodput() / g.Most(load); got < 0.95 {
						t.Errorf("%s at %g, seed %d: %.3f of the good answers that can be, want at least 0.95",
							g.Name, load, seed+1, got)
					}
					if a := x.Wasted[1]; a > 0.08 {
						t.Errorf("%s at %g, seed %d: a does %.3f of its capacity in vain, want at most 0.08",
							g.Name, load, seed+1, a)
					}
				})
			}
		}
	}
}

// Streams end when their clients leave, and have succeeded long before: an outage locks no name out.
func TestANameOfStreamsIsLetInAgainAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[int]{Limit: 100_000, Needs: func(int) string { return "events" }})
		play := func(seconds int, works bool) (ahead int) {
			for range seconds * 100 {
				time.Sleep(10 * time.Millisecond)
				p, _ := s.Acquire(t.Context(), 0)
				switch {
				case p == nil:
					ahead++
				case works:
					p.Stream()
					time.AfterFunc(time.Second, func() { p.End(Result{Left: true}) })
				default:
					p.End(Result{Failed: true, Refused: true})
				}
			}
			return ahead
		}
		play(10, true)
		if play(3, false) == 0 {
			t.Error("an outage sheds nothing ahead")
		}
		play(15, true)
		if ahead := play(10, true); ahead > 0 {
			t.Errorf("%d of 1000 are shed ahead 15 s after the outage", ahead)
		}
		time.Sleep(2 * time.Second)
	})
}
