package main

import (
	"os"
	"testing"
)

func TestOnlyATerminalHasColours(t *testing.T) {
	var none paint
	if got := none.as("heading", "rule"); got != "rule" {
		t.Errorf("without a paint: %q", got)
	}
	if got := colours.as(string(mistake), "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("a mistake: %q", got)
	}
	if got := colours.as("other", "x"); got != "x" {
		t.Errorf("what has no colour: %q", got)
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if paintOf(file) != nil {
		t.Error("a file is painted")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no /dev/ptmx")
	}
	defer terminal.Close()
	for _, c := range []struct {
		term, noColor string
		want          bool
	}{{"xterm", "", true}, {"dumb", "", false}, {"xterm", "1", false}} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		if got := paintOf(terminal) != nil; got != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: painted is %v", c.term, c.noColor, got)
		}
	}
}
