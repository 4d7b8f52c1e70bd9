package gate

import (
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
)

// document is a problem document (RFC 9457) and what it says. It is pooled, and sent again if the
// next denial says the same, as most denials of a limiter do for a second: saves a sixth of a denial.
type document struct {
	says saying
	text []byte
}

// saying is in what the documents of one answering differ that tell a wait. Others may also say what
// the request costs.
type saying struct {
	retry   string // the value of Retry-After; "": this is no saying
	denied  uint64 // the rules that it names: a bit for the index of each
	status  int
	verdict core.Verdict
}

// saying returns what the document of o says.
func (a *answering) saying(o *core.Outcome, status int, retry string) saying {
	says := saying{retry: retry, status: status, verdict: o.Verdict()}
	if !a.names(status) {
		return says
	}
	for i := range o.Len() {
		if d := o.At(i); isViolated(d) {
			if d.Index() >= 64 {
				return saying{}
			}
			says.denied |= 1 << d.Index()
		}
	}
	return says
}

// names reports whether a document with a status names rules: with 503 no policy was violated.
func (a *answering) names(status int) bool {
	return a.violated != nil && status == http.StatusTooManyRequests
}

// writeProblem answers with a problem document. If the status is 429, the document names the rules
// that denied.
func (a *answering) writeProblem(w http.ResponseWriter, r *http.Request, o *core.Outcome, status int,
	read headers.Body) {
	doc, _ := a.documents.Get().(*document)
	if doc == nil {
		doc = new(document)
	}
	retry := answer.RetryAfter(w.Header())
	if says := a.saying(o, status, retry); says != doc.says || says.retry == "" {
		doc.text = a.appendProblem(doc.text[:0], w, r, o, status, retry, read)
		doc.says = says
	}
	media := answer.Problem
	if read == headers.Bots {
		media = answer.JSON
	}
	answer.WriteUncached(w, r, status, media, doc.text)
	a.documents.Put(doc)
}

func (a *answering) appendProblem(b []byte, w http.ResponseWriter, r *http.Request, o *core.Outcome,
	status int, retry string, read headers.Body) []byte {
	said := retry
	if retry == "" {
		said = told(w.Header(), o)
	}
	var room [128]byte
	detail := appendCause(appendDetail(room[:0], said, o, status), r, said, o)
	b = answer.AppendProblem(b, answer.Document{
		Status: status, Detail: detail, Retry: retry, Bots: read == headers.Bots,
	})
	if a.names(status) {
		b = appendViolated(b, o, a.violated)
	}
	return append(b, '}', '\n')
}
