package main

import (
	"slices"
	"testing"
	"time"
)

func TestAReportTellsOfTheRequestThatIsRepeated(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(seconds float64, text string) request {
		return request{start.Add(time.Duration(seconds * float64(time.Second))), text}
	}
	for _, tt := range []struct {
		name          string
		asked         []request
		repeats, read string
	}{
		{"one", []request{at(0, "a")}, "1, exit 1", "–"},
		{"two that differ", []request{at(0, "a"), at(5, "b")}, "1, exit 1", "–"},
		{"as told", []request{at(0, "a"), at(1, "b"), at(7.1, "a")}, "2: 7.1 s, exit 1", "obeyed"},
		{"early", []request{at(0, "a"), at(6.9, "a")}, "2: 6.9 s, exit 1", "not read"},
		{"late", []request{at(0, "a"), at(10, "a")}, "2: 10.0 s, exit 1", "not read"},
		{"many", slices.Repeat([]request{at(0, "a")}, 7),
			"7: 0.0, 0.0, 0.0, 0.0, 0.0, … s, exit 1", "not read"},
	} {
		r := &report{asked: tt.asked, end: "exit 1"}
		if r.repeats() != tt.repeats || r.read() != tt.read {
			t.Errorf("%s: %q, %q, want %q, %q", tt.name, r.repeats(), r.read(), tt.repeats, tt.read)
		}
	}
}

func TestShownIsTheMostThatAProgramPrints(t *testing.T) {
	for _, tt := range []struct{ printed, part, line string }{
		{"a\nremote: Too many requests: retry in 1 second.\nerror: 429", "the text",
			"remote: Too many requests: retry in 1 second."},
		{"Server: Quota\n  Exceeded, too\n", "title and text", "Server: Quota Exceeded, too"},
		{"npm \x1b[31merror\x1b[0m 429 - GET http://127.0.0.1:PORT/x - [object Object]\n",
			"`[object Object]` in place of the text", "npm error 429 - GET URL/x - [object Object]"},
		{"a|`b` 429", "the status", "a¦'b' 429"},
		{"x\nERROR: no such thing\n", "nothing of a limit", "ERROR: no such thing"},
	} {
		if part, line := shown(tt.printed); part != tt.part || line != tt.line {
			t.Errorf("%q: %q, %q, want %q, %q", tt.printed, part, line, tt.part, tt.line)
		}
	}
}
