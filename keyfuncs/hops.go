package keyfuncs

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// maxHops is how many elements of a forwarding header are looked at, and
// maxHopText and maxElementText how many bytes of one. With them the work does
// not grow with what a client sends, even if it may claim trusted addresses.
const (
	maxHops        = 64
	maxHopText     = 128  // an IPv6 address with zone, brackets and port, and some white space
	maxElementText = 1024 // for, by, a 253-byte host, proto and some extensions
)

// forwardList is the syntax of a header to which each proxy appends a hop.
type forwardList struct {
	header    string                           // canonical
	lastComma func(string) (int, error)        // index of the comma before the last element, -1 if there is one element
	parse     func(string) (netip.Addr, error) // of one element
	skipEmpty bool
}

// of returns the hops of r. All lines of the header are one list, in order
// (RFC 9110, section 5.3).
func (list *forwardList) of(r *http.Request) hops {
	return hops{list: list, lines: r.Header[list.header]}
}

// hops reads a list from its right end, the only end that a client does not
// write. Each line is split on its own, so that what is wrong in one line
// cannot change how another is read.
type hops struct {
	list  *forwardList
	lines []string // not yet begun
	rest  string   // of the line begun
	open  bool     // rest has an element, be it empty
	count int      // elements read
}

// errNoMoreHops never leaves the package.
var errNoMoreHops = errors.New("keyfuncs: no more hops")

// next returns the element left of the one before, without white space around
// it; errNoMoreHops if there is none.
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

// lastComma splits lists that have no quoting.
func lastComma(s string) (int, error) {
	from := max(0, len(s)-maxHopText)
	comma := strings.LastIndexByte(s[from:], ',')
	if comma >= 0 {
		return from + comma, nil
	}
	if from > 0 {
		return 0, errHop
	}
	return -1, nil
}
