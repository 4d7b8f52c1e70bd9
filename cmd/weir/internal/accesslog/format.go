package accesslog

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// parser parses the lines of one format or family of formats.
type parser interface {
	stampsEnds() bool // whether stamps are the ends of requests

	// parse parses a line into e, including the name of its format.
	parse(line []byte, e *Entry) problem

	// others yields the columns of a line besides the client's that may have addresses, by the
	// names that Options.Fields may use. Only the first lines of a log are asked.
	others(line []byte, yield func(name string, text []byte))
}

// problem is the reason why a line has no entry.
type problem uint8

const (
	fine      problem = iota
	malformed         // not in the format, or cut off
	binary
	tooLong
	noAddress // a request without an address
	noRequest // the client did not send a request
	otherLine // a message of the server
	directive // a line about the log itself
	problems
)

// Stamp selects the meaning of time stamps.
type Stamp uint8

const (
	ByFormat Stamp = iota // as defined by the format
	AtStart               // arrival of the request
	AtEnd                 // end of the request
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	Format string // one of [Formats]; "" or "auto": detect

	// Fields maps roles to names of fields. Roles are those of the list roles, and the names of
	// Extras. The name of a nested JSON field is a path such as request.headers.X-Tenant.
	Fields map[string]string

	// Extras are additional values for entries: header.X-Tenant, or a name in Fields. Entry.Extra
	// has the same order.
	Extras []string

	Unit  time.Duration // of durations; 0: as the format or the name of the field says
	Stamp Stamp
}

// isAuto reports whether the format is to be detected.
func (o *Options) isAuto() bool { return o.Format == "" || o.Format == "auto" }

// unit returns the unit of durations: that of Options, of the name of the field, or of the format.
func (o *Options) unit(byFormat time.Duration) time.Duration {
	name := o.Fields["duration"]
	switch {
	case o.Unit != 0:
		return o.Unit
	case name != "":
		return unitOf(name)
	}
	return byFormat
}

// atEnd reports whether a stamp is the end of a request whose duration is known.
func (o *Options) atEnd(byFormat bool) bool {
	if o.Stamp == ByFormat {
		return byFormat
	}
	return o.Stamp == AtEnd
}

// roles are the roles that Options.Fields may name, without extras: request is the line
// "GET / HTTP/1.1", and line the whole line of a server, as a text in JSON.
var roles = []string{"time", "date", "address", "method", "path", "query", "request", "host",
	"status", "bytes", "duration", "line"}

// isExtra reports whether a role is an extra.
func isExtra(role string) bool { return strings.Contains(role, ".") }

func noField(format, name, known string) error {
	return fmt.Errorf("format %s has no field %q: it has %s", format, name, known)
}

// fixed returns an error if Fields names a role that the format does not leave to it.
func (o *Options) fixed(format string, free ...string) error {
	for role := range o.Fields {
		if !isExtra(role) && role != "line" && !slices.Contains(free, role) {
			return fmt.Errorf("format %s has a fixed place for %s: --field may name %s there",
				format, role, cmp.Or(strings.Join(free, ", "), "key.NAME and the like"))
		}
	}
	return nil
}

// view returns b as a string without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Role returns the role that text names: names of header fields are case-insensitive.
func Role(text string) string {
	if name, ok := strings.CutPrefix(text, "header."); ok {
		return "header." + http.CanonicalHeaderKey(name)
	}
	return text
}
