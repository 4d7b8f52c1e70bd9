package convert

import (
	"slices"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
)

// server is a server with its locations.
type server struct {
	at        Place
	listens   []listen // of nginx
	hosts     []string
	strange   string // a name that no pattern of a policy has; "": none
	byDefault bool   // it serves requests whose host no other server has
	locations []*location
	parents   map[*location]*location // of parent; nil: not computed
}

// location is a part of the paths of a server.
type location struct {
	at      Place
	exact   bool
	path    string
	block   []*nginxconf.Directive // nil: of no location in the file
	uses    []*use
	regexp  int // its place among the regular expressions of the server, from 1; 0: a path
	final   bool
	segment bool     // of an Ingress: the path and all below it
	index   []string // files that nginx serves for a directory; nil: it serves no files
}

// isSlash reports whether the location covers whole segments of paths.
func (l *location) isSlash() bool { return l.exact || strings.HasSuffix(l.path, "/") }

// contains reports whether l takes the requests of other, unless other has its own limits.
func (l *location) contains(other *location) bool {
	if l == other || l.exact || !strings.HasPrefix(other.path, l.path) {
		return false
	}
	return other.path != l.path || other.exact
}

// takes reports whether l takes requests for a path, unless another location is nearer.
func (l *location) takes(path string) bool {
	return path == l.path || !l.exact && strings.HasPrefix(path, l.path)
}

// escaped writes what means something in patterns as in a URL.
var escaped = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", " ", "%20")

// patterns returns the patterns of l, with a host in front.
func (l *location) patterns(host string) []string {
	path := escaped.Replace(l.path)
	switch {
	case l.exact && strings.HasSuffix(path, "/"):
		path += "{$}"
	case !l.isSlash():
		return []string{host + path, host + path + "/"}
	}
	return []string{host + path}
}

// ignores reports whether nginx ignores a host of s, since another server before it has the host
// wherever s listens.
func (s *server) ignores(other *server) bool {
	return s.listens != nil && !slices.ContainsFunc(s.listens, func(l listen) bool {
		return !slices.ContainsFunc(other.listens, func(o listen) bool { return o.at == l.at })
	})
}

// limited reports whether a location of s has a limit.
func (s *server) limited() bool {
	return slices.ContainsFunc(s.locations, func(l *location) bool { return len(l.uses) > 0 })
}

// parent returns the innermost location that contains l, or nil.
func (s *server) parent(l *location) *location {
	if s.parents == nil {
		s.parents = make(map[*location]*location, len(s.locations))
		for _, inner := range s.locations {
			for _, outer := range s.locations {
				if parent := s.parents[inner]; outer.contains(inner) && (parent == nil ||
					parent.contains(outer)) {
					s.parents[inner] = outer
				}
			}
		}
	}
	return s.parents[l]
}

// of returns the location that takes requests for a path, or nil.
func (s *server) of(path string) (l *location) {
	for _, other := range s.locations {
		if other.takes(path) && (l == nil || l.contains(other)) {
			l = other
		}
	}
	return l
}

// level returns in how many locations that count l lies, each in an exception of the one before.
func (s *server) level(l *location, counts func(*location) bool) int {
	level := -1
	if counts(l) {
		level = 0
	}
	for l != nil {
		parent := s.parent(l)
		if counts(parent) && !counts(l) {
			level++
		}
		l = parent
	}
	return level
}
