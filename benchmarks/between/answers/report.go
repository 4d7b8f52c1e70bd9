package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// again returns when the request arrived that was sent most often, the first one among equals.
func (r *report) again() []time.Time {
	at := map[string][]time.Time{}
	most := ""
	for _, q := range r.asked {
		at[q.text] = append(at[q.text], q.at)
	}
	for _, q := range r.asked {
		if len(at[q.text]) > len(at[most]) {
			most = q.text
		}
	}
	return at[most]
}

// shownWaits bounds how many waits a cell shows.
const shownWaits = 5

// repeats returns how often the program sent its request, the waits between, and its end.
func (r *report) repeats() string {
	at := r.again()
	if len(at) == 1 {
		return "1, " + r.end
	}
	var waits []string
	for i := 1; i < len(at) && i <= shownWaits; i++ {
		waits = append(waits, fmt.Sprintf("%.1f", at[i].Sub(at[i-1]).Seconds()))
	}
	more := ""
	if len(at)-1 > shownWaits {
		more = ", …"
	}
	return fmt.Sprintf("%d: %s%s s, %s", len(at), strings.Join(waits, ", "), more, r.end)
}

// late bounds how late a program may come after a wait that it obeys.
const late = 1500 * time.Millisecond

// read tells whether the program waits as Retry-After tells it.
func (r *report) read() string {
	at := r.again()
	switch {
	case len(at) == 1:
		return "–"
	case at[1].Sub(at[0]) >= toldWait && at[1].Sub(at[0]) <= toldWait+late:
		return "obeyed"
	default:
		return "not read"
	}
}

// What a program may show of a denial, the most first.
var parts = []struct{ name, text string }{
	{"the whole document", `"violated-policies"`},
	{"`[object Object]` in place of the text", "[object Object]"},
	{"title and text", "Quota Exceeded"},
	{"the text", "Too many requests: retry in"},
	{"the status", "429"},
	{"the status", "Too Many Requests"},
	{"the status", "too many requests"},
	{"the status", "toomanyrequests"},
	{"the status", "Rate limit exceeded"},
}

var (
	escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")
	spaces  = regexp.MustCompile(`\s+`)
	stamps  = regexp.MustCompile(`\b20\d\d-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(\.\d+)?Z?|\b\d\d:\d\d:\d\d\b`)
	urls    = regexp.MustCompile(`https?://127\.0\.0\.1:PORT`)
)

// maxLine bounds the length of a line that is shown.
const maxLine = 150

// shown tells which part of a denial is in what a program has printed, and the line that has it.
func shown(printed string) (part, line string) {
	printed = escapes.ReplaceAllString(printed, "")
	// uv and others break lines.
	whole := spaces.ReplaceAllString(printed, " ")
	for _, p := range parts {
		if !strings.Contains(whole, p.text) {
			continue
		}
		for l := range strings.Lines(printed) {
			if strings.Contains(l, p.text) {
				return p.name, around(l, p.text)
			}
		}
		return p.name, around(whole, p.text)
	}
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	return "nothing of a limit", around(lines[len(lines)-1], "")
}

// around returns the part of line that has text, as a cell of a table shows it.
func around(line, text string) string {
	line = urls.ReplaceAllString(stamps.ReplaceAllString(line, "…"), "URL")
	line = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	line = strings.NewReplacer("|", "¦", "`", "'").Replace(line)
	before, after, _ := strings.Cut(line, text)
	if r := []rune(before); len(r) > maxLine/2 {
		before = "…" + string(r[len(r)-maxLine/2:])
	}
	if r := []rune(after); len(r) > maxLine/2 {
		after = string(r[:maxLine/2]) + "…"
	}
	return before + text + after
}
