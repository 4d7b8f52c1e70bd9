package main

import (
	"io"
	"os"
)

// paint formats text on an output. It is nil if the text stays plain: for a file, for a terminal
// without colours, or if the user wants no colours (https://no-color.org).
type paint map[string]string

var colours = paint{
	"heading": "1", string(mistake): "31", string(failure): "31", string(warning): "33",
}

// paintOf returns the paint for an output.
func paintOf(w io.Writer) paint {
	if !canPaint(w) || os.Getenv("NO_COLOR") != "" {
		return nil
	}
	return colours
}

// as returns text formatted for a role, or text itself if p is nil.
func (p paint) as(role, text string) string {
	if colour := p[role]; colour != "" && text != "" {
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	return text
}

// canPaint reports whether w is a terminal with formatting.
func canPaint(w io.Writer) bool { return isTerminal(w) && os.Getenv("TERM") != "dumb" }
