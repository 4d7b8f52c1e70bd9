package redisbackend

import (
	"github.com/weir-go/weir/limits"
)

// A taking by a concurrency limit is under ids that the client chose. If nobody learns what
// became of it, its units are released: whether its reply was lost, its caller has left,
// or another server denied the request. No call for it is repeated, since a repetition
// would find the units of the first attempt held, and might deny for them.

// The fates of an ask. Whoever changes underWay to another is the first to finish with it.
const (
	underWay  int32 = iota
	answered        // its caller has the answer
	abandoned       // its caller left first
)

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

// keepOrRelease is called before a gets its answer. It has the units released if nobody
// waits for the answer, or if err says that there is none.
func (a *ask) keepOrRelease(taken bool, err error) {
	if err != nil {
		a.releaseIfTaken(err)
	} else if !a.fate.CompareAndSwap(underWay, answered) && taken {
		a.holds.releaseLater(a.spans, false)
	}
}

// releaseIfTaken has the units released of a call that failed, if it may have taken them.
func (a *ask) releaseIfTaken(err error) {
	if a.holds.backend.lanes.mayHaveRun(err) {
		a.holds.releaseLater(a.spans, true)
	}
}

// abandon is called when the caller of a leaves. It reports whether no answer has come.
func (a *ask) abandon() bool { return a.fate.CompareAndSwap(underWay, abandoned) }

// reissue gives a new ids: it is asked again, and the old ones are being released.
func (a *ask) reissue() {
	spans := a.spans
	a.spans = make([]span, 0, len(spans))
	for i := range a.accounts {
		of := &a.accounts[i]
		if of.isConcurrent() {
			of.ticket = a.holds.issue(of.held())
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
