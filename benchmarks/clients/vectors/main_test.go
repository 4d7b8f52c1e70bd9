package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const someVectors = `{"now": "2026-07-01T12:00:00Z", "vectors": [
{"name": "seven", "source": "s", "answers": [{"status": 429}], "earliest": 7},
{"name": "until seven", "source": "s", "answers": [{"status": 429}], "open": {"from": 1, "to": 7}},
{"name": "for ever", "source": "s", "answers": [{"status": 429}], "never": true},
{"name": "in flight", "source": "s", "answers": [{"status": 429, "sent": 0, "at": 1}], "earliest": 7}
]}`

func TestAWaitIsJudgedByItsVector(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "retry-after.json"), []byte(someVectors), 0o644); err != nil {
		t.Fatal(err)
	}
	vectors, err := readVectors(folder)
	if err != nil || len(vectors) != 3 {
		t.Fatal(vectors, err)
	}
	for _, tt := range []struct {
		vector   string
		wait     float64 // none: no next request
		repeated bool
		error    string
		want     verdict
	}{
		{"seven", 7, true, "", obeys},
		{"seven", 6.999, true, "", obeys}, // clocks have milliseconds
		{"seven", 6.9, true, "", early},
		{"seven", none, false, "", givesUp},
		{"seven", none, false, "ValueError: sleep", breaks},
		{"seven", none, false, "TimeoutError: over", givesUp},
		{"seven", 8, true, "ValueError: later", obeys},
		{"until seven", 7, true, "", obeys},
		{"until seven", 3, true, "", some},
		{"until seven", 0.5, true, "", early},
		{"for ever", 9, true, "", early},
		{"for ever", none, false, "", givesUp},
	} {
		v, r := vectors[key{"retry-after", tt.vector}], row{Repeated: tt.repeated, Error: tt.error}
		if tt.wait != none {
			r.Wait = &tt.wait
		}
		if got := judge(&v, &r); got != tt.want {
			t.Errorf("%+v is judged as %d", tt, got)
		}
	}
}

// none is the wait before a request that is not sent.
const none = -1

func TestTheReportNamesWhatIsSentTooEarly(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "retry-after.json"), []byte(someVectors), 0o644); err != nil {
		t.Fatal(err)
	}
	vectors, err := readVectors(folder)
	if err != nil {
		t.Fatal(err)
	}
	wait := 0.25
	text := report(vectors, []row{
		{"Go", "github.com/a/a", "1", "retry-after", "seven", &wait, true, ""},
		{"Go", "github.com/a/a", "1", "retry-after", "until seven", nil, false, "error: none"},
		{"Go", "github.com/a/a", "1", "retry-after", "of another release", &wait, true, ""},
	})
	for _, want := range []string{"| a/a 1 | Go | ", "| 0 · 1 · 0 |", "seven (0.25 s)", "until seven (error: none)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
