package accesslog

import "bytes"

// Counts are what became of the lines of a log.
type Counts struct {
	Lines    int64 `json:"lines"`    // without empty ones and those about the log itself
	Requests int64 `json:"requests"` // became entries

	Malformed   int64  `json:"malformed"`  // not of the format, or cut
	Binary      int64  `json:"binary"`     // with bytes that no text has
	TooLong     int64  `json:"tooLong"`    // above 256 KiB
	NoAddress   int64  `json:"noAddress"`  // a request without the address of a client, such as one with a name instead
	NoRequest   int64  `json:"noRequest"`  // what the client has sent is no request
	Other       int64  `json:"other"`      // messages of the server that are no requests
	FirstUnread int64  `json:"-"`          // the number of the first line that is malformed, binary or too long; 0: none
	WhyUnread   string `json:"-"`          // what is wrong with that line
	Incomplete  bool   `json:"incomplete"` // the file ends early, such as within a line, or its compression is damaged
}

// Unread returns how many lines are damaged.
func (c *Counts) Unread() int64 { return c.Malformed + c.Binary + c.TooLong }

// Add adds those of another log. FirstUnread is of one log, and stays.
func (c *Counts) Add(other *Counts) {
	c.Lines += other.Lines
	c.Requests += other.Requests
	c.Malformed += other.Malformed
	c.Binary += other.Binary
	c.TooLong += other.TooLong
	c.NoAddress += other.NoAddress
	c.NoRequest += other.NoRequest
	c.Other += other.Other
	c.Incomplete = c.Incomplete || other.Incomplete
}

func (l *Log) count(why problem, line []byte) {
	c := &l.counts
	switch why {
	case directive:
		return
	case noAddress:
		c.NoAddress++
		return
	case noRequest:
		c.NoRequest++
		return
	case otherLine:
		c.Other++
		return
	case tooLong:
		c.TooLong++
	default:
		if isBinary(line) {
			c.Binary++
		} else {
			c.Malformed++
		}
	}
	if c.FirstUnread == 0 {
		c.FirstUnread, c.WhyUnread = l.line, l.damage(why, line)
	}
}

// damage says what is wrong with a line, as far as a look at it tells.
func (l *Log) damage(why problem, line []byte) string {
	switch {
	case why == tooLong:
		return "it is longer than 256 KiB"
	case isBinary(line):
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
