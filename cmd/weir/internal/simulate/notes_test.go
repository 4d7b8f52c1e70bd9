package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// notesOf returns the notes of a simulation of a log.
func notesOf(t *testing.T, limit, log string, o accesslog.Options) string {
	t.Helper()
	r := do(t, simulate.Options{
		Logs: []string{write(t, "access.log", []byte(log))}, Policy: oneLimit(t, limit, "address"), Log: o,
	})
	return strings.Join(r.Notes, "\n")
}

// at returns a line of a client at an instant.
func at(client string, instant time.Time) string {
	return fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5\n", client, instant.Format("02/Jan/2006:15:04:05 -0700"))
}

// Of 60 requests at the end of one hour and 75 at the start of the next, 100 an hour deny some,
// though no hour by the clock has more than 75.
func TestABusiestPeriodIsSaidToBeByTheClock(t *testing.T) {
	noon := time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)
	log := ""
	for i := range 60 {
		log += at("203.0.113.7", noon.Add(time.Duration(i-60)*time.Second))
	}
	for i := range 75 {
		log += at("203.0.113.7", noon.Add(time.Duration(i)*time.Second))
	}
	for limit, want := range map[string]bool{
		"sliding-log 100/hour": true, "sliding-log 70/hour": false, "fixed-window 100/hour": false,
	} {
		notes := notesOf(t, limit, log, accesslog.Options{})
		if strings.Contains(notes, "such as 75 of 100: the busiest hour is one by the clock") != want {
			t.Errorf("%s: noted %q", limit, notes)
		}
	}
}

func TestRangesAreExplainedWhereAnyIsShown(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	log := ""
	for i := range 40 {
		log += at("203.0.113.7", noon.Add(time.Duration(i/20)*time.Second))
	}
	for limit, want := range map[string]string{
		"token-bucket 10/second burst 5": "both figures are shown", "1000/hour": "Both give the same figures",
	} {
		if notes := notesOf(t, limit, log, accesslog.Options{}); !strings.Contains(notes, want) {
			t.Errorf("%s: noted %q, want %q", limit, notes, want)
		}
	}
}

func TestStampsThatAreNoEpochAreSaidToBe(t *testing.T) {
	o := accesslog.Options{Format: "jsonl", Fields: map[string]string{
		"time": "ts", "address": "address", "method": "method", "path": "path",
	}}
	const line = `{"ts":%d,"address":"203.0.113.7","method":"GET","path":"/"}` + "\n"
	for ts, want := range map[int]bool{1795867259: false, 12345: true} {
		notes := notesOf(t, "10/minute", fmt.Sprintf(line, ts), o)
		if strings.Contains(notes, "The first request is of 1970") != want {
			t.Errorf("%d: noted %q", ts, notes)
		}
	}
}

func TestOneOfAThingIsOne(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for n, want := range map[int]string{1: "1 request was answered 429", 2: "2 requests were answered 429"} {
		log := strings.Repeat(strings.Replace(at("203.0.113.7", noon), " 200 ", " 429 ", 1), n)
		if notes := notesOf(t, "10/minute", log, accesslog.Options{}); !strings.Contains(notes, want) {
			t.Errorf("noted %q, want %q", notes, want)
		}
	}
}
