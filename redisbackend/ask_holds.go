package redisbackend

import (
	"github.com/weir-go/weir/limits"
)

// A taking by a concurrency limit is under ids that the client chose. If nobody learns what
// became of it, its units are released: whether its reply was lost, its caller has left,
// or another server denied the request. No call for it is repeated, since a repetition
// would find the units of the first attempt held, and might deny for them.

func (a *account) isConcurrent() bool { return a.limit.limit.Algorithm() == limits.AlgorithmConcurrent }

// heldAccount returns the account of a concurrency limit.
func (b *Backend) heldAccount(of limits.Account, limit *encoded, mode mode) account {
	a := account{Account: of, name: b.heldName(of.Scope, of.Key), limit: limit}
	if !mode.peeks {
		a.ticket = b.holds.issue(a.held())
	}
	return a
}

// held returns how many units a may hold, at most. More than its limit never fits.
func (a *account) held() int64 {
	most := a.Limit.Burst()
	if !a.isConcurrent() || a.Enforced > most {
		return 0
	}
	n := a.Enforced
	if a.Shadow <= most {
		n += a.Shadow
	}
	return n
}

// releaseIfTaken has the units released of a call that failed, if it may have taken them.
func (a *ask) releaseIfTaken() {
	if len(a.spans) > 0 && a.backend.lines.mayHaveRun(a.err) {
		a.backend.holds.releaseLater(a.spans, true)
	}
}

// reissue gives a new ids: it is asked again, and the old ones are being released.
func (a *ask) reissue() {
	spans := a.spans
	if len(spans) == 0 {
		return
	}
	defer a.setArguments()
	a.spans = make([]span, 0, len(spans))
	for i := range a.accounts {
		of := &a.accounts[i]
		if of.isConcurrent() {
			of.ticket = a.backend.holds.issue(of.held())
			a.spans = append(a.spans, span{of.name, of.ticket, of.held()})
		}
	}
}

// hold sets the tickets of a request that was decided, and notes what it holds.
func (b *Backend) hold(r *request, charges []limits.Charge, out []limits.Decision) {
	allowed := true
	for i := range charges {
		allowed = allowed && (charges[i].Shadow || out[i].Allowed)
	}
	for i, owner := range r.owners {
		a, ch, d := &r.accounts[owner], &charges[i], &out[i]
		if !allowed || !d.Allowed || ch.Cost == 0 || !a.isConcurrent() || d.Source == limits.SourceNotAsked {
			continue
		}
		// The ids of shadow charges follow those of the others.
		d.Ticket = a.ticket
		if ch.Shadow {
			d.Ticket += a.Enforced
		}
		for j := range i {
			if r.owners[j] == owner && charges[j].Shadow == ch.Shadow {
				d.Ticket += charges[j].Cost
			}
		}
		b.holds.add(span{a.name, d.Ticket, ch.Cost})
	}
}
