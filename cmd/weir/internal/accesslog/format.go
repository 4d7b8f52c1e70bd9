package accesslog

import (
	"fmt"
	"net/textproto"
	"strings"
	"time"
	"unsafe"
)

// parser parses the lines of one format or family of formats.
type parser interface {
	stampsEnds() bool // whether stamps are the ends of requests

	// parse parses a line into e, including the name of its format.
	parse(line []byte, e *Entry) problem
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

	// Fields maps roles to names of fields. Roles are time, address, method, path, request (the
	// line "GET / HTTP/1.1"), host, status, bytes, duration, and the names of Extras. The name of a
	// nested JSON field is a path such as request.headers.X-Tenant.
	Fields map[string]string

	// Extras are additional values for entries: header.X-Tenant, or a name in Fields. Entry.Extra
	// has the same order.
	Extras []string

	Unit  time.Duration // of durations; 0: as defined by the format, otherwise seconds
	Stamp Stamp
}

func (o *Options) unit() time.Duration {
	if o.Unit == 0 {
		return time.Second
	}
	return o.Unit
}

// roles are the roles that Options.Fields may name, without extras.
var roles = []string{"time", "date", "address", "method", "path", "query", "request", "host",
	"status", "bytes",
	"duration"}

// isExtra reports whether a role is an extra.
func isExtra(role string) bool { return strings.Contains(role, ".") }

func noField(format, name, known string) error {
	return fmt.Errorf("format %s has no field %q: it has %s", format, name, known)
}

func fixedField(format, role string) error {
	return fmt.Errorf("format %s has a fixed place for %s: fields can be named in JSON and W3C "+
		"logs only", format, role)
}

// view returns b as a string without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Role returns the role that text names: names of header fields are case-insensitive.
func Role(text string) string {
	if name, ok := strings.CutPrefix(text, "header."); ok {
		return "header." + textproto.CanonicalMIMEHeaderKey(name)
	}
	return text
}
