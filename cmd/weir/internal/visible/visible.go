// Package visible makes texts safe for a terminal. A page, a log or a file name must not control
// what the terminal shows.
package visible

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Rune returns c, or U+FFFD for an invisible character, such as a control character or one that
// changes the direction of text.
func Rune(c rune) rune {
	if !unicode.IsGraphic(c) {
		return unicode.ReplacementChar
	}
	return c
}

// Text returns text with U+FFFD for invisible characters. Newlines stay.
func Text(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' {
			return c
		}
		return Rune(c)
	}, text)
}

// Name returns a file name for messages: quoted, with escapes, if it has invisible characters. A
// newline in a name would otherwise look like the start of another message.
func Name(name string) string {
	if utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsGraphic(c) }) {
		return name
	}
	return strconv.Quote(name)
}

// Error returns an error of package os with its path formatted by [Name].
func Error(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return &fs.PathError{Op: path.Op, Path: Name(path.Path), Err: path.Err}
	}
	return err
}

// JSON writes v as JSON with escapes for invisible characters.
func JSON(out io.Writer, v any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	var b strings.Builder
	for _, c := range text.String() {
		switch {
		case c == '\n' || unicode.IsGraphic(c):
			b.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default: // within a text: JSON has such characters nowhere else
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
