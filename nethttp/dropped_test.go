package nethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

// dropping is the writer of a middleware that drops the first answer.
type dropping struct {
	http.ResponseWriter
	header http.Header
}

func (d dropping) Unwrap() http.ResponseWriter     { return d.ResponseWriter }
func (d dropping) Header() http.Header             { return d.header }
func (dropping) Write(content []byte) (int, error) { return len(content), nil }
func (dropping) WriteHeader(int)                   {}

func TestTheAnswerAfterADroppedDenialTeachesAShedder(t *testing.T) {
	for status, teaches := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusTooManyRequests: false} {
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
			Name: "tries", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Header("X-Try"),
			Cost: func(r *http.Request) int64 { return int64(len(r.Header["X-Cost"])) },
		}}})
		tried := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		s := shed.MustNew(shed.Options[*http.Request]{Limit: 100, Needs: func(*http.Request) string { return "all" }})
		handler := shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header["X-Cost"] = []string{"1", "2"} // more than the limit
			tried.ServeHTTP(dropping{w, make(http.Header)}, r)
			if status == http.StatusServiceUnavailable {
				r.Header["X-Cost"] = []string{"1"}
			}
			tried.ServeHTTP(w, r)
		}))
		for i := range 60 {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Try", fmt.Sprint(i))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != status && w.Code != http.StatusServiceUnavailable {
				t.Errorf("status %d, want %d", w.Code, status)
			}
		}
		if ahead := s.State().Classes[0].Ahead; (ahead > 0) != teaches {
			t.Errorf("after answers of %d %d requests were shed ahead", status, ahead)
		}
	}
}
