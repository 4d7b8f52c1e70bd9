package admin_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/stats"
)

func TestDenialsOfMoreThanAnHourAgoAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{Changes: true})
		s.visit("192.0.2.7")
		s.visit("192.0.2.7")
		id := s.denials()[0].ID
		pass(61 * time.Minute)
		s.visit("192.0.2.8")
		s.visit("192.0.2.8")
		if d := s.denials(); len(d) != 1 {
			t.Errorf("an hour later: %+v", d)
		}
		pass(31 * time.Minute)
		s.denials()
		s.fails(404, "/api/forgive", `{"ID":"`+id+`"}`, "too old")
	})
}

func TestThePageShowsCallsThatTookTooLongForABound(t *testing.T) {
	bounds := []time.Duration{time.Millisecond, time.Second}
	for _, test := range []struct {
		counts      []int64
		median, p99 int64
	}{
		{[]int64{0, 0, 0}, 0, 0},
		{[]int64{3, 1, 0}, 1_000, 1_000_000},
		{[]int64{3, 0, 1}, 1_000, 1_000_000},
		{[]int64{0, 0, 5}, 1_000_000, 1_000_000},
	} {
		h := stats.Histogram{Bounds: bounds, Counts: test.counts}
		if median, p99 := admin.Quantile(h, 50), admin.Quantile(h, 99); median != test.median || p99 != test.p99 {
			t.Errorf("%v: %d and %d, want %d and %d", test.counts, median, p99, test.median, test.p99)
		}
	}
}

// failing is a policy whose newest content is not in force.
type failing struct{ since time.Time }

func (failing) Source() string        { return "weir.yaml" }
func (failing) Digest() string        { return "abc" }
func (f failing) Applied() time.Time  { return f.since }
func (failing) Differences() []string { return []string{"a", "b"} }
func (f failing) Failure() (time.Time, error) {
	return f.since, errors.New("weir.yaml:3:1: rules: is missing")
}

func TestThePageSaysThatAPolicyIsNotInForce(t *testing.T) {
	since := time.UnixMilli(1_700_000_000_000)
	s := newSiteOf(t, ann, failing{since}, admin.Options{})
	p := s.snapshot().Policy
	if p == nil || p.Failure != "weir.yaml:3:1: rules: is missing" || p.FailingSince != since.UnixMilli() ||
		len(p.Differences) != 2 {
		t.Errorf("%+v", p)
	}
	if v := s.explain(`{"Request":{"Path":"/"}}`); v.Rules[0].Rule != "per-client" {
		t.Errorf("%+v", v)
	}
}
