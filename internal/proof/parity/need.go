package parity

import (
	"slices"
	"testing"
)

// Need is what a row of the tables needs of the server of a framework.
type Need string

const (
	HTTP2         Need = "HTTP/2"
	Informational Need = "informational answers (1xx)"
	Aborts        Need = "http.ErrAbortHandler"
	OneGoroutine  Need = "handlers of net/http on the goroutine of the limiter"
	SeesLeaving   Need = "contexts that end when the client leaves"
	StreamSizes   Need = "the sizes of streams"
	RouteFirst    Need = "the route before its own handlers run"
)

var needs = []Need{HTTP2, Informational, Aborts, OneGoroutine, SeesLeaving, StreamSizes, RouteFirst}

// lacks reports whether the framework lacks need.
func (a Adapter[R]) lacks(need Need) bool { return a.Lacks[need] != "" }

// skipWithout skips a test that needs what the framework lacks. The need "" is always met.
func (a Adapter[R]) skipWithout(t *testing.T, need Need) {
	t.Helper()
	if a.lacks(need) {
		t.Skipf("needs %s: %s", need, a.Lacks[need])
	}
}

// checkLacks checks that what a framework lacks is a need, and has a reason.
func (a Adapter[R]) checkLacks(t *testing.T) {
	t.Helper()
	for need, reason := range a.Lacks {
		if !slices.Contains(needs, need) || reason == "" {
			t.Errorf("no row needs %q, or there is no reason to lack it: %q", need, reason)
		}
	}
}
