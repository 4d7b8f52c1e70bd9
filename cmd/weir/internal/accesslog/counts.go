package accesslog

import (
	"bytes"
	"slices"
	"strings"
)

// Counts are what became of the lines of a log.
type Counts struct {
	Lines    int64 `json:"lines"`    // without empty ones and those about the log itself
	Requests int64 `json:"requests"` // became entries

	Malformed  int64 `json:"malformed"`  // not of the format, or cut
	Binary     int64 `json:"binary"`     // with bytes that no text has
	TooLong    int64 `json:"tooLong"`    // above 256 KiB
	NoAddress  int64 `json:"noAddress"`  // a request without the address of a client, such as one with a name instead
	NoRequest  int64 `json:"noRequest"`  // what the client has sent is no request
	Other      int64 `json:"other"`      // messages of the server that are no requests
	Incomplete bool  `json:"incomplete"` // the file ends early, such as within a line, or its compression is damaged
}

// Unread returns how many lines are damaged.
func (c *Counts) Unread() int64 { return c.Malformed + c.Binary + c.TooLong }

// Add adds those of another log.
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

// of returns the count of the lines with a problem; nil: they are not counted.
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

// first is the first line with a problem.
type first struct {
	line int64 // its number, as editors count
	why  string
	text string // its beginning
}

// maxFirst is how many bytes of the first line are kept.
const maxFirst = 160

// Skipped are the lines of one kind that are not simulated.
type Skipped struct {
	Kind  string `json:"kind"` // the name of its count in Counts
	Lines int64  `json:"lines"`
	First int64  `json:"first"`          // the number of the first, as editors count
	Why   string `json:"why"`            // what is wrong with the first
	Text  string `json:"text,omitempty"` // the beginning of the first, which may identify a person
}

// kinds are the names of problems.
var kinds = [problems]string{fine: "-", directive: "-", malformed: "malformed", binary: "binary",
	tooLong: "tooLong", noAddress: "noAddress", noRequest: "noRequest", otherLine: "other"}

// Skipped returns the lines that are not simulated, by kind.
func (l *Log) Skipped() (all []Skipped) {
	for why, first := range l.first {
		if n := l.counts.of(problem(why)); n != nil && *n > 0 {
			all = append(all, Skipped{kinds[why], *n, first.line, first.why, first.text})
		}
	}
	return all
}

func (l *Log) count(why problem, line []byte) {
	if why == malformed && isBinary(line) {
		why = binary
	}
	n := l.counts.of(why)
	if n == nil {
		return
	}
	if *n++; l.first[why].line == 0 {
		l.first[why] = first{l.line, l.describe(why, line),
			strings.ToValidUTF8(string(line[:min(len(line), maxFirst)]), "\ufffd")}
	}
}

// describe says what is wrong with a line, as far as a look at it tells.
func (l *Log) describe(why problem, line []byte) string {
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
	return "it is not in the format " + l.Format()
}

// isDamaged reports whether a problem is that of a line that is not as it was written.
func isDamaged(why problem) bool { return why == malformed || why == binary || why == tooLong }

// isBinary reports whether line has bytes that no text has.
func isBinary(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' {
			return true
		}
	}
	return false
}
