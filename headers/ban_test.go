package headers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// A ban of an hour for 5 units in 10 minutes. Whether bans grow is not told.
func TestTheAnswersOfABan(t *testing.T) {
	limit := limits.Ban(limits.Per(5, 10*time.Minute), time.Hour)
	t.Run("plain", func(t *testing.T) { answersOfABan(t, limit) })
	t.Run("growing", func(t *testing.T) { answersOfABan(t, limit.Growing(24*time.Hour)) })
}

func answersOfABan(t *testing.T, limit limits.Limit) {
	ban := published{Name: "ban", Limit: limit}
	policies := []published{ban}
	const rest = 59*time.Minute + 59*time.Second + time.Microsecond
	tests := []struct {
		name     string
		decision limits.Decision
		t        string
		reset    int // seconds from now
		epoch    int // seconds from 12:00:00
		more     []string
	}{
		{"allowed", allowed(2, 9*time.Minute, 9*time.Minute), "2;t=540", 540, 541, nil},
		{"the charge that bans", allowed(0, time.Hour, time.Hour), "0;t=3600", 3600, 3601, nil},
		{"banned", denied(0, rest, rest), "0;t=3600", 3600, 3600, []string{"Retry-After: 3600"}},
		{"the last second", denied(0, time.Second, time.Second), "0;t=1", 1, 2, []string{"Retry-After: 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := decided(t, policies, tt.decision)
			want(t, written(t, headers.Options{CapPace: true}, policies, o), append(tt.more,
				`RateLimit-Policy: "ban";q=5;w=600`, `RateLimit: "ban";r=`+tt.t)...)
			remaining := fmt.Sprint("remaining=", tt.decision.Remaining)
			want(t, written(t, headers.Options{Formats: []headers.Format{headers.Draft7}}, policies, o), append(tt.more,
				"RateLimit-Policy: 5;w=600", fmt.Sprintf("RateLimit: limit=5, %s, reset=%d", remaining, tt.reset))...)
			x := []string{
				"X-RateLimit-Limit: 5", fmt.Sprint("X-RateLimit-Remaining: ", tt.decision.Remaining),
				fmt.Sprint("X-RateLimit-Reset: ", 1795262400+tt.epoch),
			}
			want(t, written(t, headers.Options{Formats: []headers.Format{headers.EpochSeconds}}, policies, o),
				append(x, tt.more...)...)
		})
	}
	// The window of a ban is its period, however long the ban lasts.
	window := headers.Options{RetryAfter: headers.Window, Show: headers.Omit}
	want(t, written(t, window, policies, decided(t, policies, denied(0, time.Second, time.Second))), "Retry-After: 600")
	want(t, written(t, window, policies, decided(t, policies, denied(0, rest, rest))), "Retry-After: 3600")
}
