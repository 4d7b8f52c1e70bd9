package admin

import (
	"embed"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/http/hostname"
)

// page is the handler that New returns. It lets in who may ask, and passes questions and changes
// on to what answers them.
type page struct {
	who        func(*http.Request) (Person, error)
	options    Options
	sameOrigin *http.CrossOriginProtection
	limiters   *limiters

	explainer                        explainer
	changer                          changer
	overrider                        overrider
	snapshot, earlier, past, denials view
}

// newPage returns the page of valid arguments.
func newPage(who func(*http.Request) (Person, error), sources Sources, o Options) *page {
	limiters, mask := newLimiters(sources.Limiters), newMasker(o.Keys)
	rows := newRows(mask, limiters)
	history := newHistory(sources.Stats, sources.Policy, limiters, o.Logger)
	p := &page{
		who: who, options: o, sameOrigin: http.NewCrossOriginProtection(), limiters: limiters,
		explainer: explainer{limiters, rows, mask, sources.Policy},
	}
	shown := viewer{sources.Stats, sources.Policy, limiters, rows, mask}
	p.snapshot.make, p.denials.make, p.past.make = shown.snapshot, shown.denials, history.view
	p.earlier.make = func(now time.Time) any {
		if shot := history.earlier(now); shot != nil {
			return shown.view(shot, now)
		}
		return nil
	}
	p.changer = changer{
		limiters: limiters, rows: rows, mask: mask, logger: o.Logger, audit: o.Audit,
		changed: func() {
			history.look()
			p.snapshot.forget()
			p.past.forget()
		},
	}
	p.overrider = overrider{limiters, rows, mask, &p.changer}
	return p
}

//go:embed page
var files embed.FS

// assets are the files of the page by path.
var assets = map[string]struct{ file, contentType string }{
	"":         {"page/page.html", "text/html; charset=utf-8"},
	"page.css": {"page/page.css", "text/css; charset=utf-8"},
	"page.js":  {"page/page.js", "text/javascript; charset=utf-8"},
	"icon.svg": {"page/icon.svg", "image/svg+xml"},
}

// ServeHTTP implements [http.Handler].
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			panic(v)
		} else if v != nil { // nothing was written yet: answers are written at once
			logPanic(r.Context(), p.options.Logger, "weir: admin: an answer panicked", v)
			refuse(w, http.StatusInternalServerError, errPanicked.text)
		}
	}()
	if !slices.Contains(p.options.Hosts, hostname.Of(r.Host)) {
		refuse(w, http.StatusMisdirectedRequest,
			"this page is not served under this host name: add it to Hosts of admin.Options")
		return
	}
	if err := p.sameOrigin.Check(r); err != nil {
		refuse(w, http.StatusForbidden, "cross-origin request refused")
		return
	}
	person, ok := p.identify(r)
	if !ok {
		refuse(w, http.StatusForbidden, "you are not known here")
		return
	}
	if r.URL.Path == "" {
		toDirectory(w, r)
		return
	}
	if path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/overrides"); ok && (path == "" || path[0] == '/') {
		p.overrides(w, r, person, path)
		return
	}
	place := strings.TrimPrefix(r.URL.Path, "/")
	if asset, ok := assets[place]; ok {
		p.read(w, r, func() { serveFile(w, asset.file, asset.contentType) })
		return
	}
	switch place {
	case "api/session":
		p.read(w, r, func() { answer(w, p.session(person)) })
	case "api/snapshot":
		p.read(w, r, func() { p.snapshot.serve(w) })
	case "api/earlier":
		p.read(w, r, func() { p.earlier.serve(w) })
	case "api/history":
		p.read(w, r, func() { p.past.serve(w) })
	case "api/denials":
		p.read(w, r, func() { p.denials.serve(w) })
	case "api/explain":
		p.post(w, r, func() { handle(w, r, p.explainer.explain) })
	case "api/forgive":
		p.change(w, r, person, func() { handleAs(w, r, person, p.changer.forgive) })
	case "api/mode":
		p.change(w, r, person, func() { handleAs(w, r, person, p.changer.setMode) })
	case "api/limit":
		p.change(w, r, person, func() { handleAs(w, r, person, p.changer.setLimit) })
	case "api/clear":
		p.change(w, r, person, func() { handleAs(w, r, person, p.changer.clear) })
	default:
		refuse(w, http.StatusNotFound, "there is nothing here")
	}
}

// read calls serve if r is a GET or HEAD.
func (p *page) read(w http.ResponseWriter, r *http.Request, serve func()) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "use GET")
		return
	}
	serve()
}

// post calls serve if r is a POST of JSON.
func (p *page) post(w http.ResponseWriter, r *http.Request, serve func()) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "use POST")
		return
	}
	if hasJSON(w, r) {
		serve()
	}
}

// hasJSON reports whether the content of r is JSON. Otherwise it refuses r. HTML forms cannot send
// JSON, so this stops forms of other sites.
func hasJSON(w http.ResponseWriter, r *http.Request) bool {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the content must be application/json")
		return false
	}
	return true
}

// overrides answers a request for api/overrides, or for a path below it.
func (p *page) overrides(w http.ResponseWriter, r *http.Request, person Person, path string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		p.overrider.read(w, path)
	case http.MethodPut:
		if hasJSON(w, r) && p.allows(w, r, person, "api/overrides") {
			p.overrider.put(w, r, person, path)
		}
	case http.MethodDelete:
		if p.allows(w, r, person, "api/overrides") {
			p.overrider.remove(w, r, person, path)
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "use GET, PUT or DELETE")
	}
}

// change calls serve if r is a POST of JSON by a person who may make changes.
func (p *page) change(w http.ResponseWriter, r *http.Request, person Person, serve func()) {
	p.post(w, r, func() {
		if p.allows(w, r, person, r.URL.Path) {
			serve()
		}
	})
}

// allows reports whether person may make changes. Otherwise it logs that with path, which has no key,
// and refuses r.
func (p *page) allows(w http.ResponseWriter, r *http.Request, person Person, path string) bool {
	why := ""
	switch {
	case !p.options.Changes:
		why = "this page is read-only: see Changes of admin.Options, or --operator-changes of weir serve"
	case !person.MayChange:
		why = "you may look and not change"
	default:
		return true
	}
	p.options.Logger.LogAttrs(r.Context(), slog.LevelWarn, "weir: admin: a change was refused",
		slog.String("who", person.Name), slog.String("path", path))
	refuse(w, http.StatusForbidden, why)
	return false
}

// protect sets the headers of every answer.
func protect(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
		"connect-src 'self'; img-src 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for "+
		"'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// identify returns the sender of r. It logs the error of who, and does not send it.
func (p *page) identify(r *http.Request) (person Person, ok bool) {
	defer func() {
		if v := recover(); v != nil {
			p.options.Logger.LogAttrs(r.Context(), slog.LevelError, "weir: admin: who panicked",
				slog.Any("panic", v))
			person, ok = Person{}, false
		}
	}()
	person, err := p.who(r)
	if err != nil {
		p.options.Logger.LogAttrs(r.Context(), slog.LevelWarn,
			"weir: admin: a request for the page was refused", slog.Any("error", err))
	}
	return person, err == nil && person.Name != ""
}

// toDirectory redirects a request without a final slash, which relative links need. Only RequestURI
// has the path before StripPrefix.
func toDirectory(w http.ResponseWriter, r *http.Request) {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil || u.Path == "" || strings.HasSuffix(u.Path, "/") {
		refuse(w, http.StatusNotFound, "there is nothing here")
		return
	}
	w.Header().Set("Location", "./"+path.Base(u.EscapedPath())+"/")
	w.WriteHeader(http.StatusPermanentRedirect)
}

func serveFile(w http.ResponseWriter, name, contentType string) {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // cannot fail: assets are embedded
	}
	w.Header().Set("Content-Type", contentType)
	w.Write(content)
}

// session tells what a person may do.
type session struct {
	Instance, Name string
	MayChange      bool
	Masked         bool     // keys are shown masked
	Explains       []string // limiters that explain requests
}

func (p *page) session(person Person) session {
	s := session{Instance: p.options.Instance, Name: person.Name, MayChange: p.options.Changes &&
		person.MayChange, Masked: p.options.Keys == Masked}
	for _, name := range p.limiters.names {
		if _, ok := p.limiters.byName[name].(RequestExplainer); ok {
			s.Explains = append(s.Explains, name)
		}
	}
	return s
}
