package accesslog

import (
	"net/netip"
	"time"
)

// Entry is one request of a log. Its texts are views of the line: they are valid until the
// next line is read.
type Entry struct {
	At       int64 // when the request arrived, in microseconds since the Unix epoch
	Exact    bool  // the stamp of the log is finer than a second
	Lasted   time.Duration
	HasEnd   bool // Lasted is known
	Address  netip.Addr
	Method   string
	Target   string // path and query, as the client sent them
	Host     string // "": not logged
	Status   int    // 0: not logged
	Bytes    int64
	Extra    []string // the values of Options.Extras, "" for a missing one; "\n" separates the lines of a header
	Redacted bool     // the log hides a value of Extra
	format   string   // of the line
}

// reset makes e empty and keeps the memory of Extra.
func (e *Entry) reset() {
	extra := e.Extra
	clear(extra)
	*e = Entry{Extra: extra}
}

// arrive sets the instant of arrival, which is never before the epoch: no stamp is. A stamp
// of whole seconds and a duration leave a doubt of a second, so the result is a whole second
// again.
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
