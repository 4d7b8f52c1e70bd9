package gate

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
)

// route is the method and the path of a request whose quota is told.
type route struct{ method, path string }

// parseRoute reads a route such as "GET /search".
func parseRoute(s string) (route, error) {
	method, path, ok := strings.Cut(s, " ")
	if !ok || method == "" || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " ?{}") {
		return route{}, fmt.Errorf("route %q: want a method and a path, as in \"GET /search\"", s)
	}
	return route{method, path}, nil
}

// of returns r with the method and the path of t.
func (t route) of(r *http.Request) *http.Request {
	r = r.WithContext(AsQuestion(r.Context()))
	u := *r.URL
	u.Path, u.RawPath = t.path, ""
	r.Method, r.URL, r.RequestURI, r.Pattern = t.method, &u, u.RequestURI(), t.method+" "+t.path
	return r
}

// quota tells clients what they have left.
type quota[R any] struct {
	gate        *Gate[R]
	routes      []route
	withRequest func(R, *http.Request) R
}

// newQuota returns the quota of g. It panics if a route is malformed.
func newQuota[R any](g *Gate[R], routes []string,
	withRequest func(request R, r *http.Request) R) *quota[R] {
	q := &quota[R]{gate: g, withRequest: withRequest}
	for _, s := range routes {
		t, err := parseRoute(s)
		if err != nil {
			panic("weir: quota: " + err.Error())
		}
		q.routes = append(q.routes, t)
	}
	return q
}

// serve answers request, whose net/http form is r.
func (q *quota[R]) serve(w http.ResponseWriter, r *http.Request, request R) error {
	g, body := q.gate, &replay{of: r.Body}
	told, o := q.peek(r, request, body)
	if body.isTooLong {
		answer.WriteUncached(w, r, http.StatusRequestEntityTooLarge, answer.Text, tooLong)
		return nil
	}
	switch o.Verdict() {
	case core.Abandoned:
		g.abandon(w, request, &o)
		return nil
	case core.Unavailable:
		a, begun := g.answering(&o), len(w.Header()) > 0
		a.fields.Write(w.Header(), &o)
		return g.deny(w, r, request, &o, a, begun)
	}
	answer.WriteUncached(w, r, http.StatusOK, "application/json", appendQuotas(nil, told))
	return nil
}

var tooLong = []byte("The body of the question is too long.\n")

// peek returns what the client may know, and the last outcome: the first one without an answer. One
// list of rules decides all of them.
func (q *quota[R]) peek(r *http.Request, request R, body *replay) (told []core.RuleDecision,
	o core.Outcome) {
	for o = range q.gate.engine.PeekEach(r.Context(), q.requests(r, request, body)) {
		if body.isTooLong {
			break
		}
		q.gate.undecided.note(&o)
		if v := o.Verdict(); v == core.Abandoned || v == core.Unavailable {
			break
		}
		told = q.tell(told, &o)
	}
	return told, o
}

// requests returns the requests to ask the rules for: those of the routes, or request itself.
func (q *quota[R]) requests(r *http.Request, request R, body *replay) iter.Seq[R] {
	if len(q.routes) == 0 {
		return func(yield func(R) bool) {
			defer q.withRequest(request, r)
			yield(q.withRequest(request, r.WithContext(AsQuestion(r.Context()))))
		}
	}
	return func(yield func(R) bool) {
		for _, t := range q.routes {
			if !q.ask(t, r, request, body, yield) {
				return
			}
		}
	}
}

// ask yields request as one of route t. A context of a framework is changed in place: request is
// itself again when yield has returned.
func (q *quota[R]) ask(t route, r *http.Request, request R, body *replay, yield func(R) bool) bool {
	asked := t.of(r)
	asked.Body = body.again()
	defer func() {
		if f := asked.MultipartForm; f != nil && f != r.MultipartForm {
			_ = f.RemoveAll() // net/http removes only the files of r
		}
	}()
	defer q.withRequest(request, r)
	return yield(q.withRequest(request, asked))
}

// mostReplayed is how many bytes of the body of a question are kept for the key functions of the
// next route. They find a name in a form or in JSON; a longer body is an upload.
const mostReplayed = 1 << 20

// replay is a body for key functions of several routes. It keeps what they read.
type replay struct {
	of        io.ReadCloser // may be nil
	kept      bytes.Buffer
	isTooLong bool // a key function has read beyond mostReplayed
}

// again returns the body from its start.
func (b *replay) again() io.ReadCloser {
	if b.of == nil || b.of == http.NoBody {
		return b.of
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.kept.Bytes()), b))
}

// Read reads what no key function has read, and keeps it.
func (b *replay) Read(p []byte) (int, error) {
	room := mostReplayed - b.kept.Len()
	n, err := b.of.Read(p[:min(len(p), room+1)])
	if n > room {
		n, b.isTooLong, err = room, true, &http.MaxBytesError{Limit: mostReplayed}
	}
	b.kept.Write(p[:n])
	return n, err
}

// tell appends the decisions of o that the client may know to told. A rule is told once: for two
// keys, the one that binds.
func (q *quota[R]) tell(told []core.RuleDecision, o *core.Outcome) []core.RuleDecision {
	for i := range o.Len() {
		d := o.At(i)
		if !q.shows(d) {
			continue
		}
		same := slices.IndexFunc(told, func(e core.RuleDecision) bool {
			return e.Rule() == d.Rule()
		})
		switch {
		case same < 0:
			told = append(told, *d)
		case d.Binds(&told[same]):
			told[same] = *d
		}
	}
	return told
}

// shows reports whether the header fields would show d on the answer to a request.
func (q *quota[R]) shows(d *core.RuleDecision) bool {
	switch q.gate.options.Show {
	case headers.Omit:
		return false
	case headers.OnDenial:
		if d.Allowed {
			return false
		}
	}
	return d.Mode() == core.Enforce && d.Source.Counted() && !d.Hidden()
}

// appendQuotas appends the quotas as JSON, in the form of GitHub's /rate_limit.
func appendQuotas(b []byte, told []core.RuleDecision) []byte {
	b = append(b, `{"resources":{`...)
	for i := range told {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, quote(told[i].Rule())...), ':')
		b = appendQuota(b, &told[i])
	}
	return append(b, "}}\n"...)
}

// appendQuota appends the quota of d. It has no reset if d is about a concurrency limit, since the
// end of the requests that run is unknown.
func appendQuota(b []byte, d *core.RuleDecision) []byte {
	limit := d.Limit()
	b = appendMember(b, `{"limit":`, limit.Burst())
	b = appendMember(b, `,"used":`, max(limit.Burst()-d.Remaining, 0))
	b = appendMember(b, `,"remaining":`, d.Remaining)
	if !limit.Algorithm().Holds() {
		b = appendMember(b, `,"reset":`, resetOf(d))
	}
	if d.Unit() != core.Requests {
		b = append(append(b, `,"unit":`...), quote(d.Unit().String())...)
	}
	return append(b, '}')
}

// resetOf returns ⌈At + ResetAfter⌉ in seconds since the Unix epoch, as the header fields do.
func resetOf(d *core.RuleDecision) int64 {
	const second = int64(time.Second / time.Microsecond)
	return (d.At + d.ResetAfter.Microseconds() + second - 1) / second
}

func appendMember(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}
