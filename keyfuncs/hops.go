package keyfuncs

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// maxHops is the number of elements of a forwarding header that are read. maxHopText and
// maxElementText are the lengths in bytes of the longest element that is read, with its white
// space. These bounds keep the work independent of what a client sends, even if it may claim
// trusted addresses.
const (
	maxHops        = 64
	maxHopText     = 128  // an IPv6 address with zone, brackets and port, and some white space
	maxElementText = 1024 // for, by, a 253-byte host, proto and some extensions
)

// forwardList is the syntax of a header to which each proxy appends a hop.
type forwardList struct {
	header string // canonical
	// returns the index of the comma before the last element, or -1
	lastComma func(string) (int, error)
	parse     func(string) (netip.Addr, error) // parses one element
	skipEmpty bool
}

// of returns the hops of r. All lines of the header form one list, in order (RFC 9110,
// section 5.3).
func (l *forwardList) of(r *http.Request) hops {
	return hops{list: l, lines: r.Header[l.header]}
}

// hops reads a list from its right end, the only end that a client cannot write. Each
// line is split on its own, so that an error in one line cannot change how another is
// read.
type hops struct {
	list  *forwardList
	lines []string // lines not started yet
	rest  string   // the unread part of the current line
	open  bool     // rest has another element, which may be empty
	count int      // elements read
}

// errNoMoreHops is never returned to callers of the package.
var errNoMoreHops = errors.New("keyfuncs: no more hops")

// next returns the next element to the left, without surrounding white space, or errNoMoreHops.
func (h *hops) next() (string, error) {
	for {
		if !h.open {
			if len(h.lines) == 0 {
				return "", errNoMoreHops
			}
			last := len(h.lines) - 1
			h.rest, h.lines, h.open = h.lines[last], h.lines[:last], true
		}
		if h.count == maxHops {
			return "", errTooManyHops
		}
		comma, err := h.list.lastComma(h.rest)
		if err != nil {
			return "", err
		}
		hop := textproto.TrimString(h.rest[comma+1:])
		h.open = comma >= 0
		h.rest = h.rest[:max(comma, 0)]
		h.count++
		if hop != "" || !h.list.skipEmpty {
			return hop, nil
		}
	}
}

// lastComma splits lists that have no quoted strings.
func lastComma(s string) (int, error) {
	from := max(0, len(s)-maxHopText-1) // the comma before the longest element
	comma := strings.LastIndexByte(s[from:], ',')
	if comma >= 0 {
		return from + comma, nil
	}
	if len(s) > maxHopText {
		return 0, errHop
	}
	return -1, nil
}
