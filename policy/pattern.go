package policy

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
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
		if !isToken(method) {
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

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
