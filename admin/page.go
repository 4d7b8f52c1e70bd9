package admin

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/weir/internal/http/hostname"
)

// page is the handler that New returns.
type page struct {
	who        func(*http.Request) (Person, error)
	sources    Sources
	options    Options
	names      []string // names of the limiters, sorted
	mask       *masker
	rows       *rows
	sameOrigin *http.CrossOriginProtection

	history history

	snapshot, earlier, past, denials view
	// held while an override is read, modified and written
	changing sync.Mutex
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
			p.logPanic(r.Context(), "weir: admin: an answer panicked", v)
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
		p.post(w, r, func() { handle(w, r, p.explain) })
	case "api/forgive":
		p.change(w, r, person, func() { handleAs(w, r, person, p.forgive) })
	case "api/mode":
		p.change(w, r, person, func() { handleAs(w, r, person, p.setMode) })
	case "api/limit":
		p.change(w, r, person, func() { handleAs(w, r, person, p.setLimit) })
	case "api/clear":
		p.change(w, r, person, func() { handleAs(w, r, person, p.clear) })
	default:
		refuse(w, http.StatusNotFound, "there is nothing here")
	}
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
			p.log(r.Context(), slog.LevelError, "weir: admin: who panicked", slog.Any("panic", v))
			person, ok = Person{}, false
		}
	}()
	person, err := p.who(r)
	if err != nil {
		p.log(r.Context(), slog.LevelWarn, "weir: admin: a request for the page was refused",
			slog.Any("error", err))
	}
	return person, err == nil && person.Name != ""
}

func (p *page) log(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	p.options.Logger.LogAttrs(ctx, level, text, attrs...)
}

// logPanic logs a panic in a function that the program passed to the page.
func (p *page) logPanic(ctx context.Context, text string, v any) {
	p.log(ctx, slog.LevelError, text, slog.Any("panic", v),
		slog.String("stack", string(debug.Stack())))
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
	Explains       []string // limiters that explain requests
}

func (p *page) session(person Person) session {
	s := session{Instance: p.options.Instance, Name: person.Name, MayChange: p.options.Changes &&
		person.MayChange}
	for _, name := range p.names {
		if _, ok := p.sources.Limiters[name].(RequestExplainer); ok {
			s.Explains = append(s.Explains, name)
		}
	}
	return s
}
