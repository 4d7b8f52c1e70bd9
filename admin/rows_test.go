package admin_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

func TestEveryRowOfManyLimitersIsKnown(t *testing.T) {
	counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
	limiters := make(map[string]admin.Limiter)
	for i := range 40 {
		name := fmt.Sprint("limiter-", i)
		l := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient(1)}, Observer: counts.Limiter(name)})
		limiters[name] = l
		for client := range 500 {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", client/250, client/2%125)
			l.Decide(r)
		}
	}
	page, err := admin.New(ann, admin.Sources{Stats: counts, Limiters: limiters}, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, page: page}
	top := s.snapshot().Top
	denials := s.denials()
	if len(top) != 40*20 || len(denials) != 256 {
		t.Fatalf("%d keys denied most, %d denials", len(top), len(denials))
	}
	for _, row := range top {
		s.ask("POST", "/api/explain", fmt.Sprintf(`{"ID":%q}`, row.ID), nil)
	}
	for _, row := range denials {
		s.ask("POST", "/api/explain", fmt.Sprintf(`{"ID":%q}`, row.ID), nil)
	}
}

func TestADeniedKeyIsExplainedUnderTheLimitThatDeniedIt(t *testing.T) {
	s := newSite(t, admin.Options{}, nethttp.Rule{
		Name: "by-plan", Key: keyfuncs.Address(keyfuncs.Peer),
		LimitFor: func(*http.Request, string) (limits.Limit, error) {
			return limits.FixedWindow(limits.PerDay(1)), nil
		},
	})
	s.visit("192.0.2.7")
	s.visit("192.0.2.7")
	id := s.denials()[0].ID
	if top := s.snapshot().Top; len(top) != 1 || top[0].ID != id { // the same row, without a limit
		t.Fatalf("%+v", top)
	}
	if v := s.explain(`{"ID":"` + id + `"}`).Rules[0]; !v.Counted || v.Allowed {
		t.Errorf("%+v", v)
	}
}

func TestAKeyThatIsTooLongForARowIsExplained(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	for _, row := range []struct {
		length int
		has    bool
	}{{1024, true}, {1025, false}, {60_000, false}} {
		if v := s.explain(`{"Key":"` + strings.Repeat("k", row.length) + `"}`).Rules[0]; !v.Counted ||
			(v.ID != "") != row.has {
			t.Errorf("%d bytes: %+v", row.length, v)
		}
	}
}

func TestAKeyThatIsNotKnownIsNotForgiven(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true}, nethttp.Rule{
		Name: "strange", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: func(*http.Request) (string, error) { panic("no key") },
	})
	if v := s.explain(`{"Request":{}}`).Rules[0]; v.ID != "" || v.Counted {
		t.Errorf("%+v", v)
	}
}

func TestRowsAreForgotten(t *testing.T) {
	if kept := admin.RowsKept(100, time.Minute); kept != 100 {
		t.Errorf("after two minutes, %d of 100 rows are known", kept)
	}
	if kept := admin.RowsKept(100, 31*time.Minute); kept != 0 {
		t.Errorf("after an hour, %d of 100 rows are known", kept)
	}
	if kept := admin.RowsKept(20_000, time.Minute); kept > 2*4096 {
		t.Errorf("%d rows are known", kept)
	}
}
