package accesslog

import (
	"bytes"
	"slices"
	"strings"
)

// Counts counts the lines of a log by their result.
type Counts struct {
	Lines    int64 `json:"lines"`    // without empty lines and directives
	Requests int64 `json:"requests"` // lines that became entries

	Malformed  int64 `json:"malformed"`  // not in the format, or cut off
	Binary     int64 `json:"binary"`     // with bytes that are not text
	TooLong    int64 `json:"tooLong"`    // longer than 256 KiB
	NoAddress  int64 `json:"noAddress"`  // no client address, such as a host name instead
	NoRequest  int64 `json:"noRequest"`  // the client did not send a request
	Other      int64 `json:"other"`      // messages of the server
	Incomplete bool  `json:"incomplete"` // cut off, or with damaged compression
}

// Unread returns the number of damaged lines.
func (c *Counts) Unread() int64 { return c.Malformed + c.Binary + c.TooLong }

// Add adds the counts of another log.
func (c *Counts) Add(other *Counts) {
	c.Lines += other.Lines
	c.Requests += other.Requests
	c.Incomplete = c.Incomplete || other.Incomplete
	for why := range problems {
		if n := c.of(why); n != nil {
			*n += *other.of(why)
		}
	}
}

// of returns the count for a problem, or nil if it is not counted.
func (c *Counts) of(why problem) *int64 {
	switch why {
	case malformed:
		return &c.Malformed
	case binary:
		return &c.Binary
	case tooLong:
		return &c.TooLong
	case noAddress:
		return &c.NoAddress
	case noRequest:
		return &c.NoRequest
	case otherLine:
		return &c.Other
	}
	return nil
}

// Kind returns the number of lines of a kind of [Skipped].
func (c *Counts) Kind(kind string) int64 {
	if why := slices.Index(kinds[:], kind); why > 0 {
		return *c.of(problem(why))
	}
	return 0
}

// tally counts the lines of a log, and keeps the first line of each problem.
type tally struct {
	counts Counts
	first  [problems]first
}

type first struct {
	line int64 // line number, as in editors
	why  string
	text string // start of the line
}

// maxFirst is the number of bytes kept of the line.
const maxFirst = 160

// Skipped describes the lines of one kind that are not simulated.
type Skipped struct {
	Kind  string `json:"kind"` // name of the count in Counts
	Lines int64  `json:"lines"`
	First int64  `json:"first"`          // line number of the first one, as in editors
	Why   string `json:"why"`            // the problem of the first one
	Text  string `json:"text,omitempty"` // start of the first one; may identify a person
}

// kinds are the names of the problems.
var kinds = [problems]string{fine: "-", directive: "-", malformed: "malformed", binary: "binary",
	tooLong: "tooLong", noAddress: "noAddress", noRequest: "noRequest", otherLine: "other"}

// skipped returns the lines that are not simulated, by kind.
func (t *tally) skipped() (skipped []Skipped) {
	for why, first := range t.first {
		if n := t.counts.of(problem(why)); n != nil && *n > 0 {
			skipped = append(skipped, Skipped{kinds[why], *n, first.line, first.why, first.text})
		}
	}
	return skipped
}

// add counts a line with a problem. number is its number, as in editors. format is that of the
// log.
func (t *tally) add(why problem, line []byte, number int64, format string) {
	if why == malformed && isBinary(line) {
		why = binary
	}
	n := t.counts.of(why)
	if n == nil {
		return
	}
	if *n++; t.first[why].line == 0 {
		t.first[why] = first{number, describe(why, line, format),
			strings.ToValidUTF8(string(line[:min(len(line), maxFirst)]), "\ufffd")}
	}
}

// describe returns what is wrong with a line.
func describe(why problem, line []byte, format string) string {
	switch {
	case why == tooLong:
		return "it is longer than 256 KiB"
	case why == noAddress:
		return "it has no address of a client"
	case why == noRequest:
		return "what the client sent is no request"
	case why == otherLine:
		return "it is a message, not a request"
	case why == binary:
		return "it has bytes that no text has"
	case line[0] == '{' && !isJSON(line):
		return "it is no valid JSON"
	case line[0] != '{' && (bytes.Count(line, []byte{'"'})-bytes.Count(line, []byte(`\"`)))%2 != 0:
		return "an unclosed quote"
	}
	return "it is not in the format " + format
}

// isDamaged reports whether the problem means that the line is not as it was written.
func isDamaged(why problem) bool { return why == malformed || why == binary || why == tooLong }

// isBinary reports whether line has bytes that are not text.
func isBinary(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' {
			return true
		}
	}
	return false
}
