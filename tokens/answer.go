package tokens

import (
	"bytes"

	"github.com/weir-go/weir/internal/ground/arith"
)

// answer reads the bytes of an answer. It keeps a few words of state, however long the answer is.
type answer struct {
	form  form
	line  lineState
	label uint8 // how many bytes of the byte order mark or of "data:" were read
	begun bool  // the event has a line
	shown int64 // estimated tokens of the text in events that are complete
	json  scanner
}

// form is how the usage of an answer is written.
type form uint8

const (
	unknown  form = iota
	document      // one JSON value
	events        // server-sent events, each a JSON value
)

// lineState is where in an event stream the next byte is. Lines end as the standard of HTML says,
// in section 9.2.5: "\n", "\r" or both.
type lineState uint8

const (
	streamStart lineState = iota // where a byte order mark may be, which belongs to no line
	lineStart                    // also behind "\r", where "\n" ends no other line
	afterCR
	inLabel
	inData
	inOther // a line that has no data
)

const (
	byteOrderMark = "\ufeff"
	dataLabel     = "data:"
)

func (a *answer) read(p []byte) {
	switch a.form {
	case document:
		a.json.read(p)
	case events:
		a.readEvents(p)
	}
}

func (a *answer) readEvents(p []byte) {
	for len(p) > 0 {
		switch a.line {
		case streamStart:
			switch {
			case p[0] == byteOrderMark[a.label]:
				p = p[1:]
				if a.label++; int(a.label) == len(byteOrderMark) {
					a.line = lineStart
				}
			case a.label == 0:
				a.line = lineStart
			default: // a part of the mark belongs to the first line
				a.line, a.begun = inOther, true
			}
		case afterCR:
			a.line = lineStart
			if p[0] == '\n' {
				p = p[1:]
			}
		case lineStart:
			if isEnd(p[0]) { // an empty line ends an event
				a.endEvent()
				a.endLine(p[0])
				p = p[1:]
				continue
			}
			if n := a.uninteresting(p); n > 0 {
				p = p[n:]
				continue
			}
			a.line, a.label, a.begun = inLabel, 0, true
		case inLabel:
			if p[0] != dataLabel[a.label] {
				a.line = inOther
				continue
			}
			p = p[1:]
			if a.label++; int(a.label) == len(dataLabel) {
				a.line = inData
			}
		case inData, inOther:
			end := lineEnd(p)
			if a.line == inData {
				a.json.read(p[:end])
			}
			if end < len(p) {
				a.json.read(newline) // data of several lines is joined by it
				a.endLine(p[end])
				end++
			}
			p = p[end:]
		}
	}
}

var newline = []byte("\n")

func isEnd(c byte) bool { return c == '\n' || c == '\r' }

// ahead is how many bytes a search looks ahead. Without a bound, each line of a long piece would be
// searched for the end of a line or event that the piece may not have, up to its last byte.
const ahead = 1024

// lineEnd returns the index of the first byte that ends a line, or len(p).
func lineEnd(p []byte) int {
	for start := 0; start < len(p); start += ahead {
		part := p[start:min(start+ahead, len(p))]
		if i := bytes.IndexByte(part, '\n'); i >= 0 {
			part = part[:i]
		}
		if i := bytes.IndexByte(part, '\r'); i >= 0 {
			part = part[:i]
		}
		if end := start + len(part); end < min(start+ahead, len(p)) {
			return end
		}
	}
	return len(p)
}

func (a *answer) endLine(c byte) {
	a.line = lineStart
	if c == '\r' {
		a.line = afterCR
	}
}

// endEvent ends an event, whose JSON may be broken.
func (a *answer) endEvent() {
	a.shown, a.begun = a.text(), false
	a.json.restart()
}

var (
	eventEnd = []byte("\n\n")
	inFields = []byte("_tokens") // in the names of all numbers of a usage
)

// uninteresting returns the length of the event that p begins with, if all of it is there, it is
// short, and it has no number of a usage. Most events of a stream are such, and are read in a fifth
// of the time.
func (a *answer) uninteresting(p []byte) int {
	if a.begun || a.json.text {
		return 0
	}
	end := bytes.Index(p[:min(len(p), ahead)], eventEnd)
	if end < 0 || bytes.Contains(p[:end], inFields) {
		return 0
	}
	return end + len(eventEnd)
}

// text returns the estimated tokens of the text so far.
func (a *answer) text() int64 { return arith.Sum(a.shown, quarter(a.json.shown)) }
