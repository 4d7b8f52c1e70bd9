package admin_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

// frail is a limiter of the program that panics.
type frail struct{ *nethttp.Limiter }

func (frail) ResetKey(context.Context, string, string) error { panic("a mistake of the program") }

func (frail) Override(string, core.Override) error { panic("a mistake of the program") }

func (frail) ExplainKey(context.Context, string, string, limits.Limit) (limits.Decision, error) {
	panic("a mistake of the program")
}

func TestAChangeThatPanicsIsRecordedAndAnswered(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.serve(frail{s.limit}, func(_ context.Context, c admin.Change) { s.audits = append(s.audits, c) })
	for i, path := range []string{"/api/forgive", "/api/mode", "/api/limit", "/api/clear"} {
		s.fails(http.StatusInternalServerError, path,
			`{"Rule":"per-client","Key":"192.0.2.7","Mode":"shadow","Limit":"5/s"}`, "see the log")
		if a := s.audited(); len(a) != i+1 || a[i].Err == nil {
			t.Errorf("%s: audited as %+v", path, a)
		}
	}
	s.fails(http.StatusInternalServerError, "/api/explain", `{"Key":"192.0.2.7"}`, "see the log")
	if strings.Count(s.logged(), "a mistake of the program") < 5 {
		t.Errorf("the log does not say why: %s", s.logged())
	}
}

func TestAnAuditThatPanicsDoesNotHideTheChange(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.serve(s.limit, func(context.Context, admin.Change) { panic("no audit today") })
	s.ask("POST", "/api/mode", `{"Rule":"per-client","Mode":"shadow"}`, nil)
	if log := s.logged(); !strings.Contains(log, "no audit today") || !strings.Contains(log, "action=mode") {
		t.Errorf("the log says %s", log)
	}
}

// Somebody changes a rule and hangs up. An audit that writes to a database needs a context
// that has not ended.
func TestWhoeverLeavesIsAudited(t *testing.T) {
	s := newSite(t, admin.Options{})
	var errs []error
	s.serve(s.limit, func(ctx context.Context, _ admin.Change) { errs = append(errs, ctx.Err()) })
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/api/mode", "/api/forgive"} {
		s.send("POST", path, `{"Rule":"per-client","Mode":"shadow","Key":"192.0.2.7"}`,
			func(r *http.Request) { *r = *r.WithContext(gone) })
	}
	if len(errs) != 2 || errs[0] != nil || errs[1] != nil {
		t.Errorf("the contexts of the audits: %v", errs)
	}
}

// serve puts another page in place of that of s, which changes limiter.
func (s *site) serve(limiter admin.Limiter, audit func(context.Context, admin.Change)) {
	s.Helper()
	page, err := admin.New(ann,
		admin.Sources{Stats: stats.New(stats.Options{}), Limiters: map[string]admin.Limiter{"api": limiter}},
		admin.Options{Changes: true, Audit: audit, Logger: slog.New(slog.NewTextHandler(s, nil))})
	if err != nil {
		s.Fatal(err)
	}
	s.page = page
}
