package simulate

import (
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// The busiest month is one of the calendar, not 31 days since the epoch.
func TestTheBusiestPeriodOfACalendarIsOneOfTheCalendar(t *testing.T) {
	for _, tt := range []struct {
		limit limits.Limit
		want  int64
	}{
		{limits.Calendar(10, limits.Month), 30},
		{limits.Calendar(10, limits.Month.From(15)), 26}, // 16 days of November, and 10 of December
		{limits.Calendar(10, limits.Day), 1},
	} {
		total := &total{rules: make([]demand, 1), limits: []limits.Limit{tt.limit}, periods: make([]int64, 1)}
		c := &charge{id: 1, cost: 1}
		for day := range 40 { // November, and ten days of December
			at := time.Date(2026, time.November, 1+day, 12, 0, 0, 0, time.UTC)
			total.rules[0].add(c, total.periodAt(c, at.UnixMicro()), 1)
		}
		total.rules[0].finish()
		if got := total.rules[0].most; len(got) != 1 || got[tt.want] != 1 {
			t.Errorf("%v: keys by their busiest period: %v, want one with %d", tt.limit, got, tt.want)
		}
	}
}
