package agents

import (
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// What a denial says to people.
const (
	signToGet = "Automated clients that sign their requests (Web Bot Auth) have limits of their own."
	signAnew  = "The signature of this request was used before: sign each request anew."
)

func isInvalid(err error) bool { return errors.Is(err, ErrInvalid) }

// answerDenied answers as a limiter without a Denied does, with one more sentence, or "".
func answerDenied(w http.ResponseWriter, r *http.Request, o *core.Outcome, said string) {
	if v := o.Verdict(); said == "" && v != core.Denied && v != core.Unavailable || answer.IsGRPC(r) {
		nethttp.PlainText(w, r, *o)
		return
	}
	detail, _ := gate.Explain(w.Header(), o)
	switch said {
	case signAnew:
		detail = said
	case signToGet:
		detail += " " + said
	}
	if answer.PrefersText(r.Header["Accept"]) {
		answer.Write(w, r, o.Status(), answer.Text, append([]byte(detail), '\n'))
		return
	}
	document := answer.AppendProblem(nil, answer.Document{
		Status: o.Status(), Detail: []byte(detail), Retry: answer.RetryAfter(w.Header()),
	})
	answer.WriteUncached(w, r, o.Status(), answer.Problem, append(document, '}', '\n'))
}
