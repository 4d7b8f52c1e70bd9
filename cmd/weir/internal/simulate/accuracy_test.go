package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// jsonLines returns a log with so many requests of one client at each instant.
func jsonLines(n int, instants ...time.Time) []byte {
	var b strings.Builder
	for _, at := range instants {
		for range n {
			fmt.Fprintf(&b, `{"ts":%q,"address":"192.0.2.7","method":"GET","path":"/"}`+"\n", at.Format(time.RFC3339Nano))
		}
	}
	return []byte(b.String())
}

func accuracyOf(t *testing.T, limit string, log []byte) map[string]simulate.Accuracy {
	t.Helper()
	r := do(t, simulate.Options{
		Logs: []string{write(t, "app.jsonl", log)}, Policy: oneLimit(t, limit, "address"), Accuracy: true,
		Log: accesslog.Options{Format: "jsonl", Fields: map[string]string{
			"time": "ts", "address": "address", "method": "method", "path": "path",
		}},
	})
	rows := make(map[string]simulate.Accuracy)
	for _, row := range r.Policy.Rules[0].Accuracy {
		algorithm, _, _ := strings.Cut(row.Limit, " ")
		rows[algorithm] = row
	}
	return rows
}

func exactly(n int64) simulate.Range { return simulate.Range{Low: n, High: n} }

// A client asks for a whole limit just before the turn of each third minute, and once more just
// after it. An exact log allows half of that.
func TestAFixedWindowAllowsTwiceTheLimitAtATurn(t *testing.T) {
	turn := time.Date(2026, 11, 20, 12, 1, 0, 0, time.UTC)
	var instants []time.Time
	for i := range 20 {
		at := turn.Add(time.Duration(3*i) * time.Minute)
		instants = append(instants, at.Add(-time.Millisecond), at.Add(time.Millisecond))
	}
	rows := accuracyOf(t, "60/minute", jsonLines(60, instants...))
	for algorithm, want := range map[string]simulate.Accuracy{
		"fixed-window":    {Limit: "fixed-window 60/1m", Over: exactly(1200), Most: exactly(120)},
		"sliding-log":     {Limit: "sliding-log 60/1m", Most: exactly(60)},
		"anchored-window": {Limit: "anchored-window 60/1m", Most: exactly(60)},
	} {
		want.Decisions, want.Units = 2400, 60
		if got := rows[algorithm]; got != want {
			t.Errorf("%s:\n%+v, want\n%+v", algorithm, got, want)
		}
	}
}

// A bucket of 60 is empty after 60 requests and gets one more each second.
func TestABucketAllowsWhatItRefillsAboveItsBurst(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	instants := []time.Time{noon}
	for i := range 30 {
		instants = append(instants, noon.Add(time.Duration(i+1)*time.Second+time.Millisecond))
	}
	row := accuracyOf(t, "60/minute", append(jsonLines(59, noon), jsonLines(1, instants...)...))["token-bucket"]
	want := simulate.Accuracy{
		Limit: "token-bucket 60/1m burst 60", Decisions: 90, Over: exactly(30), Units: 60, Most: exactly(90),
	}
	if row != want {
		t.Errorf("%+v, want\n%+v", row, want)
	}
}

// A sliding window takes requests of the period before for evenly spread: half a minute into the
// next one, 29 of 60 still count. Here all of them came at its start, so an exact log has none.
func TestASlidingWindowDeniesSomeTooEarly(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	log := append(jsonLines(60, noon.Add(time.Millisecond)), jsonLines(60, noon.Add(90*time.Second+time.Millisecond))...)
	row := accuracyOf(t, "60/minute", log)["sliding-window"]
	if row.Over != exactly(0) || row.Early != exactly(29) || row.Most != exactly(60) {
		t.Errorf("%+v, want 29 of the last 60 denied too early", row)
	}
}

func TestALimitOfValuesIsNotCompared(t *testing.T) {
	p, err := simulate.OneLimit("distinct 5/10m", "everybody", "address", nil)
	if err != nil {
		t.Fatal(err)
	}
	log := write(t, "access.log", []byte(combined(3, "GET /", 200)))
	o := simulate.Options{Logs: []string{log}, Policy: p, Accuracy: true}
	if _, err := simulate.Do(t.Context(), o); err == nil || !strings.Contains(err.Error(), "counts values") {
		t.Error(err)
	}
}

func TestALimitAboveThatOfASlidingLogIsNotCompared(t *testing.T) {
	log := write(t, "access.log", []byte(combined(3, "GET /", 200)))
	o := simulate.Options{Logs: []string{log}, Policy: oneLimit(t, "20000/minute", "address"), Accuracy: true}
	if _, err := simulate.Do(t.Context(), o); err == nil || !strings.Contains(err.Error(), "at most 10000") {
		t.Error(err)
	}
}
