package admin_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

// A request that is shed reaches no limiter, and one that a rule with DenyAs503 denies is no
// shed one, though both are answered 503 in the same words.
func TestThePageTellsWhatIsShedFromWhatIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
		api := counts.Limiter("api")
		full := nethttp.Rule{
			Name: "full", Limit: limits.FixedWindow(limits.PerDay(4)),
			Key: func(*http.Request) (string, error) { return "all", nil }, DenyAs503: true,
		}
		limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient(1), full}, Observer: api})
		shedder := shed.MustNew(shed.Options[*http.Request]{
			Classes:  []shed.Class{{Name: "critical"}, {Name: "<b>other</b>", Share: 50}},
			Classify: func(r *http.Request) int { return len(r.URL.Path) - 1 },
			Limit:    2,
		})
		counts.WatchShedder("api", shedder)
		page, err := admin.New(ann, admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"api": limit}},
			admin.Options{Changes: true})
		if err != nil {
			t.Fatal(err)
		}
		service := shed.Handler(shedder, limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		visit := func(path string, client int) int {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", client)
			w := httptest.NewRecorder()
			service.ServeHTTP(w, r)
			return w.Code
		}
		var got []int
		for _, client := range []int{1, 1, 2, 3, 4, 5} { // 1 asks twice, 5 is one too many
			got = append(got, visit("/", client))
		}
		held, _ := shedder.Acquire(t.Context(), httptest.NewRequest("GET", "/o", nil))
		got = append(got, visit("/o", 6)) // no room for its class
		time.Sleep(2 * time.Second)
		if fmt.Sprint(got) != "[200 429 200 200 200 503 503]" {
			t.Errorf("the answers: %v", got)
		}
		var v struct {
			Limiters []struct{ Allowed, Denied, Unavailable int64 }
			Shedders []struct {
				Name, Mode                   string
				Limit, MaxInFlight, InFlight int
				Oldest                       int64
				Classes                      []struct {
					Name                           string
					Share, Entry, InFlight         int
					Admitted, Shed, Shadowed, Left int64
				}
			}
		}
		s := &site{T: t, page: page}
		s.ask("GET", "/api/snapshot", "", &v)
		if l := v.Limiters[0]; l.Allowed != 4 || l.Denied != 2 || l.Unavailable != 0 {
			t.Errorf("the limiter: %+v", l)
		}
		if len(v.Shedders) != 1 ||
			fmt.Sprint(v.Shedders[0]) != "{api enforce 2 10000 1 2000000 [{critical 100 2 0 6 0 0 0} {<b>other</b> "+
				"50 1 1 1 1 0 0}]}" {
			t.Errorf("the shedders: %v", v.Shedders)
		}
		held.End(shed.Result{})

		// Nothing on the page changes a shedder.
		for _, path := range []string{"/api/mode", "/api/limit", "/api/clear"} {
			s.fails(http.StatusNotFound, path, `{"Limiter":"api","Rule":"critical"`+
				map[string]string{"/api/mode": `,"Mode":"disabled"`, "/api/limit": `,"Limit":"1/second"`}[path]+`}`,
				"critical")
		}
		if state := shedder.State(); state.Mode != core.Enforce || state.Limit != 2 {
			t.Errorf("the shedder: %+v", state)
		}
	})
}

func TestAProgramWithoutAShedderHasNoneOnItsPage(t *testing.T) {
	s := newSite(t, admin.Options{})
	if text := s.send("GET", "/api/snapshot", "").Body.String(); strings.Contains(text, "Shedders") {
		t.Error(text)
	}
	if page := s.send("GET", "/", "").Body.String(); !strings.Contains(page,
		`<section id="shedding" aria-labelledby="shed" hidden>`) {
		t.Error("the panel of shedders is not hidden at first")
	}
}

// A program may shed, and limit nobody.
func TestAPageNeedsNoLimiter(t *testing.T) {
	counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
	counts.WatchShedder("api", shed.MustNew(shed.Options[*http.Request]{}))
	page, err := admin.New(ann, admin.Sources{Stats: counts}, admin.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, page: page}
	var v struct {
		Limiters, Rules []struct{}
		Shedders        []struct{ Name string }
	}
	s.ask("GET", "/api/snapshot", "", &v)
	if len(v.Limiters)+len(v.Rules) != 0 || len(v.Shedders) != 1 || v.Shedders[0].Name != "api" {
		t.Errorf("%+v", v)
	}
	for path, want := range map[string]int{"/": 200, "/api/session": 200, "/api/history": 200, "/api/denials": 200} {
		if w := s.send("GET", path, ""); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := s.send("POST", "/api/explain", `{"Limiter": "", "Key": "k"}`); w.Code != http.StatusNotFound {
		t.Errorf("explained without a limiter: %d %s", w.Code, w.Body)
	}
}

func TestThePageMarksWhatClientsAreToldOtherwise(t *testing.T) {
	full := nethttp.Rule{
		Name: "full", Limit: limits.Concurrent(4), Key: func(*http.Request) (string, error) { return "all", nil },
		DenyAs503: true, Hidden: true,
	}
	s := newSite(t, admin.Options{}, perClient(1), full)
	var v struct {
		Rules []struct {
			Name             string
			Capacity, Hidden bool
		}
	}
	s.ask("GET", "/api/snapshot", "", &v)
	if len(v.Rules) != 2 || v.Rules[0].Capacity || !v.Rules[1].Capacity || v.Rules[0].Hidden || !v.Rules[1].Hidden {
		t.Errorf("%+v", v)
	}
	for _, question := range []string{`{"Key":"192.0.2.7"}`, `{"Request":{"Path":"/","Address":"192.0.2.7"}}`} {
		v.Rules = nil
		s.ask("POST", "/api/explain", question, &v)
		if len(v.Rules) != 2 || v.Rules[0].Hidden || !v.Rules[1].Hidden {
			t.Errorf("%s: %+v", question, v)
		}
	}
}
