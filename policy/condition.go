package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// condition is an entry of match, route or except: a pattern, a route or a list.
type condition struct {
	word
	pattern *pattern // nil: none
	method  string   // of a route; "": any
	route   string   // "": none
	list    string   // "": none
}

// conditions reads the entries of match, route or except, and appends them to before. A duplicate
// entry is a mistake. Overlapping patterns are not, since they lead to the same rule.
func (d *decoder) conditions(
	n *node, before []condition, read func(*decoder, *node, string) (condition, bool),
) []condition {
	type entry struct {
		text    string
		pattern bool
	}
	seen := make(map[entry]*node, len(before)+len(n.items))
	for _, c := range before {
		seen[entry{c.text, c.pattern != nil}] = c.at
	}
	d.each(n, func(item *node) {
		text, ok := d.text(item)
		if !ok {
			return
		}
		c, ok := read(d, item, strings.Join(strings.Fields(text), " "))
		if !ok {
			return
		}
		is := entry{c.text, c.pattern != nil}
		if other := seen[is]; other != nil {
			d.mistake(item, "%s is here twice, also in line %d: remove one", quote(c.text),
				other.line)
			return
		}
		seen[is] = item
		before = append(before, c)
	})
	return before
}

func (d *decoder) pattern(n *node, text string) (condition, bool) {
	if why := otherLanguage(text); why != "" {
		d.mistake(n, "%s (got %s)", why, quote(text))
		return condition{}, false
	}
	p, err := parsePattern(text)
	if err != nil {
		d.mistake(n, "%v (got %s)", err, quote(text))
		return condition{}, false
	}
	d.method(n, p.method)
	return condition{word: word{text, n}, pattern: p}, true
}

// otherLanguage returns the correction for a network, a query, or a parameter in the syntax of a
// framework; "" if text has none of these. ServeMux would read them as hosts and literals, so the
// rule would match no request.
func otherLanguage(text string) string {
	place := text[strings.LastIndexByte(text, ' ')+1:]
	if _, err := netip.ParsePrefix(place); err == nil {
		return "a pattern is no network: write the network under lists, and except: list with " +
			"its name"
	}
	if _, err := netip.ParseAddr(place); err == nil {
		return "a pattern is no address: write the address under lists, and except: list with " +
			"its name"
	}
	slash := strings.IndexByte(place, '/')
	if slash < 0 {
		return ""
	}
	if host := place[:slash]; strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "patterns have neither scheme nor port: write example.com/path or /path"
	}
	if strings.ContainsAny(place, "?#") {
		return "patterns match the path alone: write it without ? and #"
	}
	for segment := range strings.SplitSeq(place[slash+1:], "/") {
		switch {
		case segment == "*" || segment == "**":
			return "/api/ matches all paths below, and {name} matches one segment: write that " +
				"instead of " + segment
		case strings.HasPrefix(segment, ":") && isIdentifier(segment[1:]):
			return "patterns have {" + segment[1:] +
				"} for a segment: write that, or use route for the routes of the framework"
		}
	}
	return ""
}

// route reads a route of a framework, with or without a method.
func (d *decoder) route(n *node, text string) (condition, bool) {
	c := condition{word: word{text, n}, route: text}
	if method, route, ok := strings.Cut(text, " "); ok {
		c.method, c.route = method, route
	}
	if c.method != "" && !isToken(c.method) || strings.Contains(c.route, " ") {
		d.mistake(n, "must be a route such as /users/:id or POST /users/:id (got %s)", quote(text))
		return c, false
	}
	d.method(n, c.method)
	return c, true
}

// methods are the common methods. Others exist, so an unknown method is not a mistake.
var methods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY",
}

// method reports a method that no request has, because it is not in capitals or is misspelt.
func (d *decoder) method(n *node, method string) {
	upper := strings.ToUpper(method)
	switch {
	case slices.Contains(methods, method):
	case slices.Contains(methods, upper):
		d.mistake(n, "methods have capital letters: write %s (got %s)", upper, quote(method))
	default:
		for _, known := range methods {
			if isNearly(method, known) {
				d.mistake(n, "there is no such method: write %s (got %s)", known, quote(method))
				return
			}
		}
	}
}

// exception reads an entry of except: a pattern, "route" and a route, or "list" and a
// name.
func (d *decoder) exception(n *node, text string) (condition, bool) {
	if name, ok := strings.CutPrefix(text, "list "); ok {
		return condition{word: word{text, n}, list: name}, true
	}
	if route, ok := strings.CutPrefix(text, "route "); ok {
		c, ok := d.route(n, route)
		c.text = text
		return c, ok
	}
	return d.pattern(n, text)
}

// hasMethod reports whether c applies to requests with method.
func (c *condition) hasMethod(method string) bool {
	return c.method == "" || c.method == method ||
		c.method == http.MethodGet && method == http.MethodHead
}
