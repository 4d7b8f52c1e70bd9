package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/playground/lab"
)

// accessLog is five minutes of four clients, of which one asks for much. Two addresses are one client.
func accessLog() string {
	var log strings.Builder
	for i := range 600 {
		client := []string{"203.0.113.5", "203.0.113.5", "198.51.100.9", "2001:db8:1:2::3", "2001:db8:1:2::4",
			"203.0.113.5"}[i%6]
		at := time.Date(2026, 11, 20, 12, 0, i/2, 0, time.UTC)
		fmt.Fprintf(&log, "%s - - [%s] \"GET /a HTTP/1.1\" 200 5 \"-\" \"-\"\n", client,
			at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	return log.String() + "damaged\n"
}

// replay replays a log, which comes in small pieces.
func replay(t *testing.T, s lab.Setup, log string) (lab.Replayed, error) {
	t.Helper()
	r, err := newLab(t, s).Replay("access.log")
	if err != nil {
		return lab.Replayed{}, err
	}
	for len(log) > 0 {
		n := min(len(log), 1000)
		if _, err := r.Write([]byte(log[:n])); err != nil {
			break
		}
		log = log[n:]
	}
	return r.Result()
}

func TestAReplaySaysWhatSimulateSays(t *testing.T) {
	panels := []string{"token-bucket 5/10s", "5/10s", "fixed-window 20/1m", "sliding-log 5/10s",
		"ban 5/10s for 1m", "leaky-queue 5/10s"}
	got, err := replay(t, lab.Setup{Panels: append(panels, "fast: 9/10s and slow: fixed-window 20/1m", "concurrent 5")},
		accessLog())
	if err != nil || got.Requests != "600" ||
		got.Headline != "600 requests, 20 Nov 2026 12:00:00–12:04:59 UTC, 3 clients" ||
		!strings.Contains(got.Reading, "1 line unread") || !strings.HasPrefix(got.Notes[0], "line 601: ") {
		t.Fatalf("%v: %+v", err, got)
	}
	denied := 0
	for i, limit := range panels {
		p, err := simulate.OneLimit(limit, "address", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := simulate.Do(context.Background(),
			simulate.Options{Logs: []string{"-"}, Stdin: strings.NewReader(accessLog()), Policy: p})
		if err != nil {
			t.Fatal(err)
		}
		row := got.Rows[i]
		for at, bar := range want.Bars {
			if got.Over[at] != bar.Asked || row.Over[at] != bar.Denied.High {
				t.Errorf("%s: at %v it denies %d of %d, and simulate %v of %d", limit, bar.At, row.Over[at],
					got.Over[at],
					bar.Denied, bar.Asked)
			}
		}
		if row.Panel != i || row.Denied != report.Range(want.Policy.Denied) ||
			row.DeniedShare != report.Share(want.Policy.Denied, want.Requests) ||
			row.Clients != report.Range(want.Policy.Clients) ||
			row.Wait != lab.Duration(time.Duration(want.Policy.Rules[0].WaitMillis.High)*time.Millisecond) ||
			row.Delayed != map[bool]string{true: report.Range(want.Policy.Delayed)}[want.Policy.Delayed.High > 0] ||
			row.First != want.Policy.Rules[0].First.Format("2 Jan 15:04:05") {
			t.Errorf("%s: %+v, and simulate says %+v", limit, row, want.Policy)
		}
		if want.Policy.Denied.Low > 0 && want.Policy.Denied.High < want.Requests {
			denied++
		}
	}
	if denied < len(panels) {
		t.Errorf("only %d limits deny something", denied)
	}
	if both := got.Rows[len(panels)]; both.Denied == "0" || both.Denied == "" {
		t.Errorf("two limits together: %+v", both)
	}
	if none := got.Rows[len(panels)+1]; none.Denied != "" || len(none.Missing) != 1 ||
		!strings.Contains(none.Missing[0], "needs the duration of requests") {
		t.Errorf("a concurrency limit and a log without durations: %+v", none)
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	for log, want := range map[string]string{
		"no\nlog\n": "access.log: the format is not known", "": "the log has no requests",
		"\x28\xb5\x2f\xfd": "compressed by zstd", "\x1f\x8b": "not readable as gzip",
	} {
		if _, err := replay(t, lab.Setup{}, log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", log, err, want)
		}
	}
	l, _ := lab.New(lab.Setup{Panels: []string{"many"}})
	if _, err := l.Replay("access.log"); err == nil {
		t.Error("a log is replayed through nothing")
	}
}

func TestAReplayCanBeStopped(t *testing.T) {
	r, err := newLab(t, lab.Setup{}).Replay("access.log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte(accessLog()[:1000])); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	if _, err := r.Write([]byte("more")); err == nil {
		t.Error("a replay that was stopped takes more")
	}
}
