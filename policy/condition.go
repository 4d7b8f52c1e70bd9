package policy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/ground/token"
)

// condition is an entry of match, route or except: a pattern, a route, a list, or agent.
type condition struct {
	word
	pattern *pattern // nil: none
	method  string   // of a route; "": any
	route   string   // "": none
	list    string   // "": none
	agent   bool     // requests that an agent has signed
}

// readConditions reads the entries of match, route or except by read, and appends them to before. A
// duplicate entry is a mistake. Overlapping patterns are not, since they lead to the same rule.
func readConditions(
	d *decoder, n *node, before []condition, read func(*condition, *decoder, string) bool,
) []condition {
	type entry struct {
		text    string
		pattern bool
	}
	seen := make(map[entry]*node, len(before)+len(n.Items))
	for _, c := range before {
		seen[entry{c.text, c.pattern != nil}] = c.at
	}
	d.each(n, func(item *node) {
		text, ok := d.text(item)
		if !ok {
			return
		}
		c := condition{word: word{strings.Join(strings.Fields(text), " "), item}}
		if !read(&c, d, c.text) {
			return
		}
		is := entry{c.text, c.pattern != nil}
		if other := seen[is]; other != nil {
			d.mistake(item, "%s is here twice, also in line %d: remove one", quote(c.text),
				other.Line)
			return
		}
		seen[is] = item
		before = append(before, c)
	})
	return before
}

// readPattern reads a pattern, and reports whether text is one.
func (c *condition) readPattern(d *decoder, text string) bool {
	if why := otherLanguage(text); why != "" {
		d.mistake(c.at, "%s (got %s)", why, quote(text))
		return false
	}
	p, err := parsePattern(text)
	if err != nil {
		d.mistake(c.at, "%v (got %s)", err, quote(text))
		return false
	}
	c.pattern = p
	checkMethod(d, c.at, p.method)
	return true
}

// readRoute reads a route of a framework, with or without a method.
func (c *condition) readRoute(d *decoder, text string) bool {
	c.route = text
	if method, route, ok := strings.Cut(text, " "); ok {
		c.method, c.route = method, route
	}
	if c.method != "" && !token.Is(c.method) || strings.Contains(c.route, " ") {
		d.mistake(c.at, "must be a route such as /users/:id or POST /users/:id (got %s)",
			quote(text))
		return false
	}
	checkMethod(d, c.at, c.method)
	return true
}

// isPlace reports whether c is a pattern or a route.
func (c *condition) isPlace() bool { return c.list == "" && !c.agent }

// readException reads an entry of except: a pattern, "route" and a route, "list" and a name, or
// agent.
func (c *condition) readException(d *decoder, text string) bool {
	if text == "agent" {
		c.agent = true
		return true
	}
	if name, ok := strings.CutPrefix(text, "list "); ok {
		c.list = name
		return true
	}
	if route, ok := strings.CutPrefix(text, "route "); ok {
		return c.readRoute(d, route)
	}
	return c.readPattern(d, text)
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

// methods are the common methods. Others exist, so an unknown method is not a mistake.
var methods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY",
}

// checkMethod reports a method that no request has, because it is not in capitals or is misspelt.
func checkMethod(d *decoder, n *node, method string) {
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

// check reports a list that the file does not have, or that needs client, and an agent without
// agents.
func (c *condition) check(d *decoder, f *fileText) {
	if c.agent && f.agents == nil {
		d.mistake(c.at, "%s", needsAgents)
	}
	if c.list == "" {
		return
	}
	if f.lists.byName[c.list] == nil {
		d.mistake(c.at, "there is no list %s: add it to lists", quote(c.list))
	}
	if f.client == nil {
		d.mistake(c.at, "a list needs client: say at the top of the file how addresses "+
			"are found, such as client: {peer: true}")
	}
}

// needsRequest reports whether c reads the request of net/http.
func (c *condition) needsRequest() bool {
	return c.pattern != nil || c.method != "" || c.list != ""
}

// covers reports whether every request that meets other meets c, as far as their texts tell.
func (c *condition) covers(other *condition) bool {
	if c.pattern == nil || other.pattern == nil {
		return c.text == other.text && c.route == other.route
	}
	return c.pattern.covers(other.pattern)
}

// describe returns c as text, with the word route before a route.
func (c *condition) describe() string {
	if c.route != "" && !strings.HasPrefix(c.text, "route ") {
		return "route " + c.text
	}
	return c.text
}

func describeConditions(conditions []condition) string {
	texts := make([]string, len(conditions))
	for i := range conditions {
		texts[i] = conditions[i].describe()
	}
	return strings.Join(texts, ", ")
}

// foldAll makes the patterns of conditions match what any server may take for their paths.
func foldAll(conditions []condition) {
	for _, c := range conditions {
		if c.pattern != nil {
			c.pattern.fold()
		}
	}
}

// hasMethod reports whether c applies to requests with method.
func (c *condition) hasMethod(method string) bool {
	return c.method == "" || c.method == method ||
		c.method == http.MethodGet && method == http.MethodHead
}

// places tells where requests lead: to which path, and to which route of a framework.
type places[R any] struct {
	request func(R) *http.Request
	route   func(R) string // nil: none
}

// match reports whether r meets one of conditions.
func (p places[R]) match(conditions []condition, r R) bool {
	for i := range conditions {
		c := &conditions[i]
		if c.pattern != nil {
			if p.leadTo(c.pattern, r) {
				return true
			}
		} else if p.haveRoute(c, r) {
			return true
		}
	}
	return false
}

// leadTo reports whether r matches a pattern by its path or by the route that the framework chose.
// In echo, the last parameter of a route gets the rest of the path with its slashes; routers of
// net/http do not do that.
func (p places[R]) leadTo(pattern *pattern, r R) bool {
	request := p.request(r)
	if pattern.matches(request) {
		return true
	}
	_, plain := any((*R)(nil)).(**http.Request)
	return !plain && p.route != nil && pattern.matchesRoute(request, p.route(r))
}

// except reports whether r certainly meets one of conditions.
func (p places[R]) except(conditions []condition, r R) bool {
	for i := range conditions {
		c := &conditions[i]
		if c.pattern != nil {
			if c.pattern.excepts(p.request(r)) {
				return true
			}
		} else if p.haveRoute(c, r) {
			return true
		}
	}
	return false
}

// haveRoute reports whether the framework routed r by the route of c. A pattern of net/http may
// begin with a method; haveRoute compares the method of r instead.
func (p places[R]) haveRoute(c *condition, r R) bool {
	route := p.route(r)
	if _, place, ok := strings.Cut(route, " "); ok {
		route = strings.TrimLeft(place, " \t")
	}
	return route == c.route && (c.method == "" || c.hasMethod(p.request(r).Method))
}
