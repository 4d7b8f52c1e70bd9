package main

import (
	"io"
	"os"
)

// paint is how the text on an output may look: nil if it stays plain, because it goes to a file, to
// a terminal that has no colours, or to somebody who wants none (https://no-color.org).
type paint map[string]string

var colours = paint{"heading": "1", string(mistake): "31", string(failure): "31", string(warning): "33"}

// paintOf returns the paint for an output.
func paintOf(w io.Writer) paint {
	if !canPaint(w) || os.Getenv("NO_COLOR") != "" {
		return nil
	}
	return colours
}

// as returns text as it looks in a role; without a paint it is text.
func (p paint) as(role, text string) string {
	if colour := p[role]; colour != "" && text != "" {
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	return text
}

// canPaint reports whether w is a terminal that can do more than print lines.
func canPaint(w io.Writer) bool { return isTerminal(w) && os.Getenv("TERM") != "dumb" }
