package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgressIsShownAfterASecond(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := &progress{w: &b, now: func() time.Time { return now }, barWidth: 10}
	p.show(1, 0, 200e6)
	if b.Len() > 0 {
		t.Errorf("at once: %q", b.String())
	}
	now = now.Add(2 * time.Second)
	p.show(1, 50e6, 200e6)
	if got := b.String(); !strings.Contains(got, "reading [██░░░░░░░░]  25% of 200.0 MB, 6s left") {
		t.Errorf("got %q", got)
	}
	now = now.Add(time.Millisecond)
	n := b.Len()
	p.show(1, 51e6, 200e6)
	if b.Len() > n {
		t.Error("it is shown twice within a tenth of a second")
	}
	now = now.Add(time.Second)
	p.show(2, 7e6, 0)
	p.clear()
	if got := b.String()[n:]; !strings.Contains(got, "reading, pass 2: 7.0 MB") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got %q", got)
	}
}

func TestNoProgressIsShownToAFile(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false)
	p.begun = time.Time{}
	p.show(1, 1, 2)
	p.clear()
	if b.Len() > 0 {
		t.Errorf("got %q", b.String())
	}
}
