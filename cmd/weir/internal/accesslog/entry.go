package accesslog

import (
	"net/netip"
	"time"
)

// Entry is one request of a log. Its texts alias the line: they are valid until the next line is
// read.
type Entry struct {
	At       int64 // arrival in microseconds since the Unix epoch
	Exact    bool  // the stamp is finer than a second
	Lasted   time.Duration
	HasEnd   bool // Lasted is known
	Address  netip.Addr
	Method   string
	Target   string // path and query as the client sent them
	Host     string // "": not logged
	Status   int    // 0: not logged
	Bytes    int64
	Extra    []string // values of Options.Extras, "" if missing; "\n" separates lines of a header
	Redacted bool     // the log hides a value of Extra
	format   string   // format of the line
}

// reset clears e and keeps the memory of Extra.
func (e *Entry) reset() {
	extra := e.Extra
	clear(extra)
	*e = Entry{Extra: extra}
}

// arrive sets the time of arrival, at least 0. A stamp in whole seconds less a duration is
// uncertain by a second, so the result is rounded to a whole second.
func (e *Entry) arrive(stamp int64, exact, atEnd bool) {
	e.At, e.Exact = stamp, exact
	if !atEnd || !e.HasEnd {
		return
	}
	e.At = max(0, e.At-e.Lasted.Microseconds())
	if !exact {
		e.At = (e.At + 500_000) / 1_000_000 * 1_000_000
	}
}
