package accesslog

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/address"
	"github.com/weir-go/weir/internal/ground/token"
)

// Entry is one request of a log. Its texts alias the line: they are valid until the next line is
// read.
type Entry struct {
	At       int64 // arrival in microseconds since the Unix epoch
	Stamp    int64 // the stamp of the line, which is At or later, in microseconds, too
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
	local    bool     // the stamp names no zone
	bare     string   // a duration whose unit is not known, or ""
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
	e.At, e.Stamp, e.Exact = stamp, stamp, exact
	if !atEnd || !e.HasEnd {
		return
	}
	e.At = max(0, e.At-e.Lasted.Microseconds())
	if !exact {
		e.At = (e.At + 500_000) / 1_000_000 * 1_000_000
	}
}

// last sets the duration: a number of units, or a text such as 12ms. Without a unit, a number says
// nothing.
func (e *Entry) last(text []byte, unit time.Duration) {
	if unit == 0 && len(text) > 0 && isNumber(text) {
		e.bare = view(text)
		return
	}
	e.Lasted, e.HasEnd = readDuration(text, unit)
}

// setAddress sets the address of the client. In a list such as X-Forwarded-For, or in several lines
// of a header, it takes the last address, since a client can write the others.
func (e *Entry) setAddress(text []byte) problem {
	addr, _, err := address.Parse(lastOf(text))
	return e.setParsed(addr, err)
}

// lastOf returns the last element of a list.
func lastOf(text []byte) string {
	return view(bytes.Trim(text[bytes.LastIndexAny(text, ",\n")+1:], " \t\r\n"))
}

func (e *Entry) setParsed(addr netip.Addr, err error) problem {
	if err != nil {
		return noAddress
	}
	e.Address = addr
	return fine
}

// looksLikeAddress reports whether text is the address of a client.
func looksLikeAddress(text []byte) bool {
	if len(text) < 2 || bytes.IndexByte(text, ':') < 0 && bytes.IndexByte(text, '.') < 0 {
		return false
	}
	_, _, err := address.Parse(view(text))
	return err == nil
}

// setRequestLine sets method and target from an unescaped request line such as GET / HTTP/1.1. If
// the client did not send a request line, the server answered before any limiter.
func (e *Entry) setRequestLine(line []byte) problem {
	method, rest, ok := cutSpace(line)
	if !ok || !isMethod(method) {
		return noRequest
	}
	rest = bytes.Trim(rest, " ") // nginx accepts several spaces
	target := rest
	if i := bytes.LastIndex(rest, []byte(" HTTP/")); i >= 0 {
		target = bytes.TrimRight(rest[:i], " ")
	} else if before, version := cutLast(rest); len(before) > 0 {
		// hypercorn writes GET / 1.1
		if !isVersion(version) || bytes.IndexByte(before, ' ') >= 0 {
			return noRequest
		}
		target = before
	}
	return e.setRequest(method, target)
}

// isVersion reports whether s is a version of HTTP alone, such as 1.1 or 2.
func isVersion(s []byte) bool {
	return (len(s) == 1 || len(s) == 3 && s[1] == '.') && '0' <= s[0] && s[0] <= '3'
}

// setRequest sets method and target. It removes scheme and host from a target such as those that
// proxies get and some balancers log.
func (e *Entry) setRequest(method, target []byte) problem {
	if !isMethod(method) || len(target) == 0 {
		return noRequest
	}
	if target[0] != '/' && string(target) != "*" {
		i := bytes.Index(target, []byte("://"))
		if i < 0 {
			if string(method) != "CONNECT" {
				return noRequest
			}
			target = []byte("/")
		} else {
			target = target[i+3:]
			host := target
			if i := bytes.IndexAny(target, "/?"); i < 0 {
				target = []byte("/")
			} else if host, target = target[:i], target[i:]; target[0] == '?' {
				target = append([]byte("/"), target...)
			}
			if e.Host == "" {
				e.Host = view(host)
			}
		}
	}
	e.Method, e.Target = view(method), view(target)
	return fine
}

// isMethod reports whether s is a method: a token (RFC 9110, section 9.1). Go servers also serve
// unknown methods in lower case.
func isMethod(s []byte) bool {
	return token.Is(s) && string(s) != "-"
}

// unescape reverts how servers escape quotes and control characters: \", \\, \n and \x16.
func unescape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	clean := make([]byte, 0, len(s))
	for len(s) > 0 {
		c := s[0]
		s = s[1:]
		if c == '\\' && len(s) > 0 {
			if hex, ok := hexEscape(s); ok {
				c, s = hex, s[3:]
			} else {
				c, s = s[0], s[1:]
				if i := strings.IndexByte("bnrtv", c); i >= 0 {
					c = "\b\n\r\t\v"[i]
				}
			}
		}
		clean = append(clean, c)
	}
	return clean
}

// hexEscape parses an escape such as \x16 without its backslash.
func hexEscape(s []byte) (c byte, ok bool) {
	if len(s) < 3 || s[0] != 'x' {
		return 0, false
	}
	n, err := strconv.ParseUint(view(s[1:3]), 16, 8)
	return byte(n), err == nil
}

func readStatus(s []byte) int {
	status, err := strconv.Atoi(view(s))
	if err != nil || status < 0 || status > 999 {
		return 0
	}
	return status
}

func readSize(s []byte) int64 {
	size, err := strconv.ParseInt(view(s), 10, 64)
	if err != nil || size < 0 {
		return 0
	}
	return size
}
