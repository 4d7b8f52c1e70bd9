package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows how much of the logs was read, on a terminal, after the first second.
type progress struct {
	w        io.Writer // nil: no output
	begun    time.Time
	pass     int
	last     time.Time
	written  bool
	now      func() time.Time
	barWidth int
}

// newProgress returns a progress on w, if w is a terminal.
func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{begun: time.Now(), now: time.Now, barWidth: 30}
	if !quiet && canPaint(w) {
		p.w = w
	}
	return p
}

// show shows that done of total bytes were read in a pass; total is 0 if unknown.
func (p *progress) show(pass int, done, total int64) {
	now := p.now()
	if pass != p.pass {
		p.pass, p.begun = pass, now
	}
	if p.w == nil || now.Sub(p.begun) < time.Second && !p.written ||
		now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.written = now, true
	what := "reading"
	if pass > 1 {
		what = fmt.Sprintf("reading, pass %d", pass)
	}
	if total <= 0 {
		fmt.Fprintf(p.w, "\r%s: %s\x1b[K", what, megabytes(done))
		return
	}
	part := min(1, float64(done)/float64(total))
	full := int(part * float64(p.barWidth))
	left := ""
	if elapsed := now.Sub(p.begun); part > 0.02 {
		left = ", " +
			(time.Duration(float64(elapsed) * (1 - part) / part)).Round(time.Second).String() +
			" left"
	}
	fmt.Fprintf(p.w, "\r%s [%s%s] %3.0f%% of %s%s\x1b[K", what, strings.Repeat("█", full),
		strings.Repeat("░", p.barWidth-full), part*100, megabytes(total), left)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// clear removes the progress.
func (p *progress) clear() {
	if p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.written = false
	}
}
