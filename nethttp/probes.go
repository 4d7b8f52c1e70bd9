package nethttp

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/http/gate"
)

// Probes returns a condition for [core.When] and [core.Unless]: whether a request is a probe, by
// which a balancer finds out whether a server works, or a program what a server has. Both take a
// denied probe for an answer: the server is dead, or the thing is not there. So count probes under
// a rule of their own, with a limit that is ten times as high:
//
//	isProbe := nethttp.MustProbes("/healthz", "/v2/", "HEAD /files/{path...}")
//	requests.Key = core.Unless(isProbe, client) // 60 a minute
//	probes.Key = core.When(isProbe, client)     // 600 a minute
//
// A path stands for GET, HEAD and OPTIONS, or for the method in front of it; GET includes HEAD.
// {name} is one segment of a path, as in [http.ServeMux]. {name...} is the rest, and stands for
// HEAD alone: a GET would lift the limit of downloads. Unlike in ServeMux, a final slash is that of
// one path: "/v2/" is not what lies below. A request is no probe if it spells its path with
// escapes, dots or double slashes that it does not need, nor if a name or the rest has one of
// ; \ # ? % or a control character, escaped or not: proxies and servers read on from there in
// several ways. The query does not matter: name no path whose query chooses what is served.
//
// The error has every mistake in paths.
func Probes(paths ...string) (func(*http.Request) bool, error) {
	var p probes
	var errs []error
	if len(paths) == 0 {
		errs = append(errs, errors.New("nethttp: Probes: no path: name one, such as /healthz"))
	}
	for _, text := range paths {
		if err := p.add(text); err != nil {
			errs = append(errs, fmt.Errorf("nethttp: Probes: %w (got %.40q)", err, text))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p.include, nil
}

// MustProbes is [Probes] for package variables. It panics if paths have a mistake.
func MustProbes(paths ...string) func(*http.Request) bool { return gate.Must(Probes(paths...)) }

// probes are the paths of Probes.
type probes struct {
	exact map[string][]string // methods by path
	wild  []wildProbe
}

// wildProbe is a path with wildcards.
type wildProbe struct {
	methods  []string
	segments []probeSegment
	rest     bool // any number of segments follow
}

type probeSegment struct {
	text string
	any  bool // the client chooses it
}

// add adds a path, which may have a method in front.
func (p *probes) add(text string) error {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	method, at, found := strings.Cut(text, " ")
	switch {
	case !found:
		at = text
	case method == http.MethodGet:
		methods = methods[:2]
	default:
		methods = []string{method}
	}
	at = strings.TrimSuffix(at, "{$}")
	switch {
	case found && (method == "" || strings.ToUpper(method) != method):
		return errors.New("a method has capital letters: write it as in HEAD /files/{path...}")
	case !strings.HasPrefix(at, "/") || strings.ContainsAny(at, " ?#") || !isPlain(at):
		return errors.New("must be a path such as /healthz, without dots, blanks and query")
	case !strings.ContainsAny(at, "{}"):
		if p.exact == nil {
			p.exact = make(map[string][]string)
		}
		p.exact[at] = append(p.exact[at], methods...)
		return nil
	}
	w := wildProbe{methods: methods}
	segments := strings.Split(at[1:], "/")
	for i, segment := range segments {
		name, opens := strings.CutPrefix(segment, "{")
		name, closes := strings.CutSuffix(name, "}")
		name, isRest := strings.CutSuffix(name, "...")
		switch {
		case !strings.ContainsAny(segment, "{}"):
			w.segments = append(w.segments, probeSegment{text: segment})
		case !opens || !closes || name == "" || strings.ContainsAny(name, "{}."):
			return errors.New("a wildcard is a whole segment: write {name}, or {name...} at the end")
		case !isRest:
			w.segments = append(w.segments, probeSegment{any: true})
		case i < len(segments)-1:
			return errors.New("{name...} is the rest of a path: write it at the end")
		case !slices.Equal(methods, []string{http.MethodHead}):
			return errors.New("only HEAD probes a whole tree: write HEAD in front")
		default:
			w.rest = true
		}
	}
	p.wild = append(p.wild, w)
	return nil
}

// include reports whether r is a probe.
func (p *probes) include(r *http.Request) bool {
	if r.URL == nil || r.URL.RawPath != "" {
		return false
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	if slices.Contains(p.exact[r.URL.Path], method) {
		return true
	}
	for i := range p.wild {
		if w := &p.wild[i]; slices.Contains(w.methods, method) && w.matches(r.URL.Path) {
			return isPlain(r.URL.Path) && !hasMarks(r.URL.Path)
		}
	}
	return false
}

// hasMarks reports whether an unescaped path has a character after which some proxies or servers read
// otherwise: they end the path there, drop a part of it, or unescape it once more.
func hasMarks(at string) bool {
	for i := range len(at) {
		if c := at[i]; c < ' ' || c == 0x7f || strings.IndexByte(`;\#?%`, c) >= 0 {
			return true
		}
	}
	return false
}

// matches reports whether at has the segments of w.
func (w *wildProbe) matches(at string) bool {
	for _, want := range w.segments {
		rest, ok := strings.CutPrefix(at, "/")
		if !ok {
			return false
		}
		segment := rest
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			segment = rest[:slash]
		}
		if want.any && segment == "" || !want.any && segment != want.text {
			return false
		}
		at = rest[len(segment):]
	}
	if w.rest {
		return strings.HasPrefix(at, "/")
	}
	return at == ""
}

// isPlain reports whether a path has neither empty segments nor dots to resolve.
func isPlain(at string) bool {
	clean := path.Clean(at)
	return at == clean || clean != "/" && at == clean+"/"
}
