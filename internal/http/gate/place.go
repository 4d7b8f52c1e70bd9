package gate

import (
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
)

// The fields are written before next, so that limiters inside find them. What is inside may then
// answer with the header of another answer: a cache, or a proxy after an informational answer. The
// gate looks at the fields after next. Once they have changed, something inside does that, and from
// then on the gate writes the fields when the status is written. That needs a writer around the
// framework's, with which a request takes 1.8 times as long. The look alone takes a fifth, so the gate
// looks at the first answers and then at one in a few: a program in which nothing answers for others
// does not get slower.
const (
	firstLooks = 1000
	lookEvery  = 16
)

// ErrSwapped is the error of a next that went on, and left a writer of another type in the
// framework's context: its owner may answer for others.
var ErrSwapped = errors.New("gate: the request went on, with another writer")

// placing keeps the fields in their place while something inside answers.
type placing[R any] struct {
	ruling   *ruling[R]
	onStatus func(http.ResponseWriter, R, func(int)) http.ResponseWriter
	restores bool
	waits    atomic.Bool  // the fields are written when the status is
	looked   atomic.Int32 // how many answers it looked at, up to firstLooks
}

// proceed calls next for a request that may go on.
func (p *placing[R]) proceed(w http.ResponseWriter, request R, o *core.Outcome,
	next func(http.ResponseWriter, R) error) error {
	if p.ruling.options.NotOnRedirects || p.ruling.options.NotOnStorable || p.waits.Load() {
		return p.proceedWatched(w, request, o, next)
	}
	if p.restores || o.Len() == 0 || !p.looks(o.At(0).Decision.At) {
		return next(w, request)
	}
	h := w.Header()
	kept := p.ruling.answering(o).fields.Keep(h)
	err := next(w, request)
	if kept.Changed(h) || err == ErrSwapped {
		p.waits.Store(true)
	}
	return err
}

// looks reports whether to look at the fields of the answer to a request that was decided at an
// instant in microseconds.
func (p *placing[R]) looks(at int64) bool {
	if p.looked.Load() >= firstLooks {
		return at%lookEvery == 0 // nearly at random
	}
	p.looked.Add(1)
	return true
}

// proceedWatched is proceed with a writer that waits for the status, which may delete the fields.
func (p *placing[R]) proceedWatched(w http.ResponseWriter, request R, o *core.Outcome,
	next func(http.ResponseWriter, R) error) error {
	h := w.Header()
	var kept headers.Kept
	if !p.restores {
		kept = p.ruling.answering(o).fields.Keep(h)
	}
	told := false
	onStatus := func(status int) {
		told = true
		if p.ruling.options.NotOnRedirects && isRedirect(status) ||
			p.ruling.options.NotOnStorable && isStorable(h) {
			headers.Delete(h)
			return
		}
		kept.Restore(h)
	}
	err := next(p.onStatus(w, request, onStatus), request)
	switch {
	case p.ruling.options.NotOnStorable && isStorable(h):
		headers.Delete(h) // if the server, or gin, is yet to write the header
	case !told:
		kept.Restore(h)
	}
	return err
}

// isRedirect reports whether a status leads elsewhere. A 304 does not.
func isRedirect(status int) bool {
	return 300 <= status && status < 400 && status != http.StatusNotModified
}
