package headers_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// The window of a policy is the period that the decision lies in: 28 days in February, 31 in March, and 743 hours
// where clocks go forward.
func TestTheWindowOfACalendarPolicyIsThePeriod(t *testing.T) {
	now := time.Date(2026, time.February, 28, 23, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, w, t string
		period     limits.Period
		at         time.Time
	}{
		{"February", "2419200", "3600", limits.Month, now},
		{"March", "2678400", "2678400", limits.Month, now.Add(time.Hour)},
		{"March in Berlin", "2674800", "2674800", limits.Month.In("Europe/Berlin"), now},
		{"a day of 25 hours", "90000", "3600", limits.Day.In("Europe/Berlin"),
			time.Date(2026, time.October, 25, 22, 0, 0, 0, time.UTC)},
	} {
		limit := limits.Calendar(10_000, tt.period)
		for _, options := range []core.Rule[int64]{
			{Name: "plan", Limit: limit},
			{Name: "plan", LimitFor: func(int64, string) (limits.Limit, error) { return limit, nil }},
		} {
			options.Key = func(int64) (string, error) { return "client", nil }
			limiter, err := core.New(core.Config[int64]{
				Rules:   []core.Rule[int64]{options},
				Backend: memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return tt.at }}),
			})
			if err != nil {
				t.Fatal(err)
			}
			o := limiter.Decide(context.Background(), 1)
			policies := []published{{Name: "plan", Limit: options.Limit}}
			want(t, written(t, headers.Options{Formats: []headers.Format{headers.IETF}}, policies, &o),
				`RateLimit-Policy: "plan";q=10000;w=`+tt.w, `RateLimit: "plan";r=9999;t=`+tt.t)
			want(t, written(t, headers.Options{Formats: []headers.Format{headers.Draft7}}, policies, &o),
				"RateLimit-Policy: 10000;w="+tt.w, "RateLimit: limit=10000, remaining=9999, reset="+tt.t)
		}
	}
}
