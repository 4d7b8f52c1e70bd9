package policy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-go/weir/internal/ground/token"
)

// pattern is a pattern of [http.ServeMux]: [METHOD ][HOST]/[PATH].
type pattern struct {
	text     string
	method   string // "": any
	host     string // "": any
	segments []segment

	prefix string   // literal segments before the first other one, such as "/api/v1/", for speed
	after  int      // number of segments in prefix
	parent *pattern // of a subtree: its path without the final slash; otherwise nil

	folded *pattern // under paths: any-server, the pattern without case; otherwise nil
}

// segment is one part of a pattern's path. As in ServeMux, a final slash is a segment of kind
// restOf, and {$} is the literal "/".
type segment struct {
	kind segmentKind
	fold bool   // upper and lower case are equal
	text string // unescaped text of a literal
}

type segmentKind uint8

const (
	literal segmentKind = iota
	wildcard
	restOf // rest of the path: last segment only
)

// maxSegments limits the path of a pattern, so that matching needs a fixed amount of memory.
const maxSegments = 32

// parsePattern parses a pattern of http.ServeMux. It rejects paths that are not clean. ServeMux
// accepts them without a method, and never matches them.
func parsePattern(text string) (*pattern, error) {
	p := &pattern{text: text}
	rest := text
	if method, after, ok := strings.Cut(strings.ReplaceAll(text, "\t", " "), " "); ok {
		if !token.Is(method) {
			return nil,
				errors.New("must be a pattern such as /users/{id} or POST /login: the method " +
					"has characters that no method has")
		}
		p.method, rest = method, strings.TrimLeft(after, " ")
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return nil,
			errors.New("must be a pattern such as /users/{id} or POST /login: the path must " +
				"begin with a slash")
	}
	p.host, rest = rest[:slash], rest[slash:]
	if strings.ContainsAny(p.host, "{} ") {
		return nil,
			errors.New("the host must be a name without { and blanks: wildcards are parts of " +
				"the path, as in /{id}")
	}
	if !isClean(rest) {
		return nil,
			errors.New("the path must be clean, since requests are cleaned first: write it " +
				"without double slashes, dots and double dots")
	}
	if err := p.parsePath(rest); err != nil {
		return nil, err
	}
	p.compile()
	return p, nil
}

// compile precomputes the fields that make matching fast.
func (p *pattern) compile() {
	last := len(p.segments) - 1
	p.prefix = "/"
	for p.after < last && p.segments[p.after].kind == literal && !p.segments[p.after].fold &&
		!strings.Contains(p.segments[p.after].text, "/") {
		p.prefix += p.segments[p.after].text + "/"
		p.after++
	}
	if last > 0 && p.endsInSlash() {
		p.parent = &pattern{segments: p.segments[:last]}
		p.parent.compile()
	}
}

// fold makes p match what a server in any language may take for its path.
func (p *pattern) fold() {
	f := &pattern{segments: slices.Clone(p.segments)}
	for i := range f.segments {
		f.segments[i].fold = true
	}
	f.compile()
	p.folded = f
}

// isClean reports whether a path has no empty segment and no dots to resolve.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || clean != "/" && p == clean+"/"
}

func (p *pattern) parsePath(rest string) error {
	names := make(map[string]bool)
	for rest != "" {
		rest = rest[1:] // skip the slash
		if rest == "" {
			p.segments = append(p.segments, segment{kind: restOf})
			break
		}
		text, after := rest, ""
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			text, after = rest[:i], rest[i:]
		}
		rest = after
		s, err := parseSegment(text, rest == "", names)
		if err != nil {
			return err
		}
		p.segments = append(p.segments, s)
	}
	if len(p.segments) > maxSegments {
		return fmt.Errorf("a pattern has at most %d segments (got %d)", maxSegments,
			len(p.segments))
	}
	return nil
}

func parseSegment(text string, last bool, names map[string]bool) (segment, error) {
	if !strings.Contains(text, "{") {
		if unescaped, err := url.PathUnescape(text); err == nil {
			text = unescaped
		}
		return segment{text: text}, nil
	}
	name, ok := strings.CutPrefix(text, "{")
	if name, ok = cutSuffix(name, "}", ok); !ok {
		return segment{}, errors.New("a wildcard must be a whole segment, as in /users/{id}")
	}
	if name == "$" {
		if !last {
			return segment{}, errors.New("{$} must be at the end of the path")
		}
		return segment{text: "/"}, nil
	}
	kind := wildcard
	if short, ok := strings.CutSuffix(name, "..."); ok {
		if !last {
			return segment{}, fmt.Errorf("{%s} must be at the end of the path", name)
		}
		name, kind = short, restOf
	}
	switch {
	case !isIdentifier(name):
		return segment{},
			errors.New("the name of a wildcard must have letters, digits and _ only, and begin " +
				"with no digit")
	case names[name]:
		return segment{}, fmt.Errorf("two wildcards have the name %.40q: rename one", name)
	}
	names[name] = true
	return segment{kind: kind}, nil
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	before, found := strings.CutSuffix(s, suffix)
	return before, ok && found
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// everyPath matches every request.
var everyPath = &pattern{segments: []segment{{kind: restOf}}}

// covers reports whether every request that matches other matches p, as far as their texts tell.
func (p *pattern) covers(other *pattern) bool {
	if p.host != "" && !strings.EqualFold(p.host, other.host) ||
		p.method != "" && (other.method == "" || !p.matchesMethod(other.method)) {
		return false
	}
	if slices.Equal(p.segments, other.segments) {
		return true
	}
	last := len(p.segments) - 1
	return p.segments[last].kind == restOf && len(other.segments) > last &&
		slices.Equal(p.segments[:last], other.segments[:last])
}

// Servers read an unusual path in different ways: some unescape it before they route, some resolve
// dots and double slashes, some drop a slash at the end. No spelling may evade a limit, and no
// spelling may reach an exception. A request therefore matches if any of these readings matches,
// and is excepted only if all of them match.
//
// Servers in other languages have more readings: Express, ASP.NET and Fiber route without case,
// servlet containers remove parameters such as ;a=b from each segment before they resolve dots,
// and Express ends a path at #. These are readings under paths: any-server only.

// matches reports whether r matches p in any reading of its path: as http.ServeMux with p as its
// only pattern reads it, including redirections; unescaped first; not cleaned; or with a slash more
// or less at the end. It allocates nothing.
func (p *pattern) matches(r *http.Request) bool {
	if !p.isFor(r) {
		return false
	}
	u := r.URL
	if u == nil {
		return p.matchesLoosely("/", false)
	}
	if p.folded != nil {
		return p.folded.matchesElsewhere(u.Path, false) ||
			u.RawPath != "" && p.folded.matchesElsewhere(u.RawPath, true)
	}
	return p.matchesLoosely(u.Path, false) || u.RawPath != "" && p.matchesLoosely(u.RawPath, true)
}

// matchesElsewhere reports whether a path, which may be escaped, matches in a reading of any
// server. It allocates for paths with ; \ or # and for escaped ones alone.
func (p *pattern) matchesElsewhere(path string, escaped bool) bool {
	if escaped && (strings.Contains(path, "%2e") || strings.Contains(path, "%2E")) {
		path = strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path)
	}
	if p.matchesLoosely(path, escaped) {
		return true
	}
	if !hasMarks(path) {
		return false
	}
	short, _, _ := strings.Cut(path, "#")
	for _, text := range [2]string{path, short} {
		plain := withoutParameters(text, escaped)
		if p.matchesLoosely(text, escaped) || p.matchesLoosely(plain, escaped) ||
			p.matchesLoosely(strings.ReplaceAll(plain, `\`, "/"), escaped) {
			return true
		}
	}
	return false
}

// hasMarks reports whether path has a character that some servers do not take literally.
func hasMarks(path string) bool { return strings.ContainsAny(path, `;\#`) || hasEscapedMark(path) }

// hasEscapedMark reports whether path has an escaped semicolon.
func hasEscapedMark(path string) bool {
	return strings.Contains(path, "%3B") || strings.Contains(path, "%3b")
}

// withoutParameters returns path without what follows a semicolon in each segment, as servlet
// containers read it. In an escaped path, an escaped semicolon counts, too.
func withoutParameters(path string, escaped bool) string {
	if escaped && hasEscapedMark(path) {
		path = strings.NewReplacer("%3B", ";", "%3b", ";").Replace(path)
	}
	if strings.IndexByte(path, ';') < 0 {
		return path
	}
	var b strings.Builder
	b.Grow(len(path))
	for path != "" {
		segment, rest := path, ""
		if slash := strings.IndexByte(path, '/'); slash >= 0 {
			segment, rest = path[:slash+1], path[slash+1:]
		}
		if before, _, ok := strings.Cut(segment, ";"); ok {
			b.WriteString(before)
			if strings.HasSuffix(segment, "/") {
				b.WriteByte('/')
			}
		} else {
			b.WriteString(segment)
		}
		path = rest
	}
	return b.String()
}

// matchesRoute reports whether p matches the framework's route of r, such as "/users/:id". It
// returns false for a route with *: compare the path instead.
func (p *pattern) matchesRoute(r *http.Request, route string) bool {
	return route != "" && strings.IndexByte(route, '*') < 0 && p.isFor(r) &&
		p.matchesAsIs(route, false)
}

// excepts reports whether r matches p in every reading of its path. A path with needless escapes
// never does, because routers read them differently.
func (p *pattern) excepts(r *http.Request) bool {
	if !p.matchesMethod(r.Method) || p.host != "" && p.host != hostOf(r.Host) {
		return false
	}
	if isAmbiguous(r) || p.folded != nil && (hasMarks(r.URL.Path) || hasEscaped(r.URL.Path)) {
		return false
	}
	return p.matchesAsIs(r.URL.Path, false)
}

// hasEscaped reports whether a path that is unescaped has a character that stands in a path only
// if it is escaped. A proxy that forwards the path unescaped ends it there, or has the server unescape
// it once more.
func hasEscaped(path string) bool {
	return strings.ContainsFunc(path, func(c rune) bool { return c == '%' || c == '?' || c < ' ' })
}

// isAmbiguous reports whether the path of r has several readings.
func isAmbiguous(r *http.Request) bool {
	return r.URL == nil || r.URL.RawPath != "" || isUnclean(r.URL.Path)
}

// isFor reports whether p has the method and host of r, in any spelling of the host.
func (p *pattern) isFor(r *http.Request) bool {
	return p.matchesMethod(r.Method) && (p.host == "" || sameHost(p.host, r.Host))
}

func (p *pattern) matchesMethod(method string) bool {
	return p.method == "" || p.method == method ||
		p.method == http.MethodGet && method == http.MethodHead
}

// sameHost reports whether the host of a pattern is that of a request, ignoring case, port and a
// final dot.
func sameHost(pattern, host string) bool {
	return strings.EqualFold(pattern, host) ||
		strings.EqualFold(pattern, strings.TrimSuffix(hostOf(host), "."))
}

// hostOf returns host without its port, and an IPv6 address without brackets.
func hostOf(host string) string {
	colon := strings.LastIndexByte(host, ':')
	switch {
	case colon < 0:
		return host
	case host[0] == '[':
		if end := strings.IndexByte(host, ']'); end == colon-1 {
			return host[1:end]
		}
		return host
	case strings.IndexByte(host, ':') != colon:
		return host
	}
	return host[:colon]
}

// matchesLoosely reports whether a path, which may be escaped, matches unchanged, cleaned, or with
// a slash more or less at the end.
func (p *pattern) matchesLoosely(path string, escaped bool) bool {
	if p.matchesAsIs(path, escaped) {
		return true
	}
	if n := len(path); n > 1 && path[n-1] == '/' && p.matchesAsIs(path[:n-1], escaped) {
		return true
	}
	// ServeMux redirects to the subtree
	if p.parent != nil && !strings.HasSuffix(path, "/") && p.parent.matchesAsIs(path, escaped) {
		return true
	}
	return isUnclean(path) && p.matchesCleaned(path, escaped)
}

// matchesAsIs reports whether a path matches unchanged.
func (p *pattern) matchesAsIs(path string, escaped bool) bool {
	segments := p.segments
	if !escaped {
		if !strings.HasPrefix(path, p.prefix) {
			return false
		}
		segments, path = segments[p.after:], path[len(p.prefix)-1:]
	}
	for i := range segments {
		s := &segments[i]
		if path == "" || path[0] != '/' {
			return false
		}
		if s.kind == restOf {
			return true
		}
		part := path
		path = ""
		if part != "/" {
			part = part[1:]
			if slash := strings.IndexByte(part, '/'); slash >= 0 {
				part, path = part[:slash], part[slash:]
			}
		}
		if !s.matches(part, escaped) {
			return false
		}
	}
	return path == ""
}

// endsInSlash reports whether p can match a path because of its final slash alone.
func (p *pattern) endsInSlash() bool {
	last := &p.segments[len(p.segments)-1]
	return last.kind == restOf || last.kind == literal && last.text == "/"
}

// matches reports whether one segment of a path matches s. The slash at the end of a path is a
// segment "/", which no wildcard matches.
func (s *segment) matches(part string, escaped bool) bool {
	if !escaped || strings.IndexByte(part, '%') < 0 {
		if s.kind == wildcard {
			return part != "/"
		}
		return s.text == part || s.fold && strings.EqualFold(s.text, part)
	}
	if s.kind == wildcard { // even an escaped slash, which ServeMux takes for the end of the path
		return true
	}
	if s.fold {
		part, err := url.PathUnescape(part)
		return err == nil && strings.EqualFold(s.text, part)
	}
	return equalUnescaped(s.text, part)
}

// equalUnescaped reports whether unescaping escaped yields text. It allocates nothing.
func equalUnescaped(text, escaped string) bool {
	i := 0
	for ; i < len(text) && escaped != ""; i++ {
		c := escaped[0]
		if high, low, ok := hexDigits(escaped); ok {
			c = high<<4 | low
			escaped = escaped[2:]
		}
		if c != text[i] {
			return false
		}
		escaped = escaped[1:]
	}
	return i == len(text) && escaped == ""
}

// hexDigits returns the digits of the escape sequence at the start of s.
func hexDigits(s string) (high, low byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, 0, false
	}
	high, low = hexDigit(s[1]), hexDigit(s[2])
	return high, low, high < 16 && low < 16
}

// hexDigit returns the value of a hexadecimal digit, 16 for anything else.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// isUnclean reports whether cleaning may change path.
func isUnclean(path string) bool {
	if path == "" || path[0] != '/' {
		return true
	}
	for i := 1; i < len(path); i++ {
		if path[i-1] == '/' && (path[i] == '/' || path[i] == '.' && isDots(path[i:])) {
			return true
		}
	}
	return false
}

// isDots reports whether the first segment of s, which begins with a dot, is exactly . or ..
func isDots(s string) bool {
	s = strings.TrimPrefix(s[1:], ".")
	return s == "" || s[0] == '/'
}

// matchesCleaned reports whether a path matches after double slashes and dots are resolved, as
// ServeMux does.
func (p *pattern) matchesCleaned(path string, escaped bool) bool {
	var parts [maxSegments]string // the first segments of the path
	depth := 0
	for rest := path; rest != ""; {
		part := rest
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			part, rest = rest[:slash], rest[slash+1:]
		} else {
			rest = ""
		}
		switch part {
		case "", ".":
		case "..":
			depth = max(0, depth-1)
		default:
			if depth < maxSegments {
				parts[depth] = part
			}
			depth++
		}
	}
	if depth == 0 {
		return p.matchesAsIs("/", false)
	}
	last := &p.segments[len(p.segments)-1]
	n := len(p.segments) // segments before the final slash
	if p.endsInSlash() {
		n--
	}
	if depth < n || depth > n && last.kind != restOf {
		return p.matchesLastSlash(parts[:min(depth, maxSegments)], depth, escaped)
	}
	for i := range n {
		if !p.segments[i].matches(parts[i], escaped) {
			return false
		}
	}
	return true
}

// matchesLastSlash reports whether parts match when the last of them is an escaped slash that
// matches the literal "/" of p.
func (p *pattern) matchesLastSlash(parts []string, depth int, escaped bool) bool {
	if depth != len(p.segments) || len(parts) != depth {
		return false
	}
	for i := range parts {
		if s := &p.segments[i]; s.kind != restOf && !s.matches(parts[i], escaped) {
			return false
		}
	}
	return true
}
