package redisbackend

import (
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// The client chooses the ids of the units that a request takes, so it can release them without
// knowing the result. It does so if the reply was lost, if the caller has left, and if another
// server denied the request.
//
// So go-redis must not repeat a script that takes units: the repetition would find the units of the
// first attempt held, and might be denied because of them. See reissue.

// heldAccount returns the account of a concurrency limit, with new ids unless it is peeked.
func (b *Bare) heldAccount(charged backends.Account, limit *encoded, mode mode) account {
	a := account{Account: charged, name: b.heldName(charged.Scope, charged.Key), limit: limit}
	if !mode.peeks {
		a.ticket = b.holds.issue(a.held())
	}
	return a
}

// releaseIfTaken releases the units of a request that failed, if its script may have run.
func (t *takeJob) releaseIfTaken() {
	if len(t.ids) > 0 && t.backend.lines.MayHaveRun(t.Err) {
		t.backend.holds.releaseLater(t.ids, true)
	}
}

// Reissue gives t new ids, to send it again while the units of the former ids are being released.
func (t *takeJob) Reissue() {
	former := t.ids
	if len(former) == 0 {
		return
	}
	t.ids = make([]idRange, 0, len(former))
	for i := range t.accounts {
		account := &t.accounts[i]
		if account.limit.Held {
			account.ticket = t.backend.holds.issue(account.held())
			t.ids = append(t.ids, idRange{account.name, account.ticket, account.held()})
		}
	}
	t.setArguments() // with the new ids
}

// noteHeld sets the tickets of a decided request, and starts to renew the units that it holds.
func (b *Bare) noteHeld(r *request, charges []backends.Charge, out []limits.Decision) {
	allowed := true
	for i := range charges {
		allowed = allowed && (charges[i].Shadow || out[i].Allowed)
	}
	for i, at := range r.accountOf {
		a, ch, d := &r.accounts[at], &charges[i], &out[i]
		if !allowed || !d.Allowed || ch.Cost == 0 || !a.limit.Held ||
			d.Source == limits.SourceNotAsked {
			continue
		}
		// The ids of enforced charges come first, then those of shadow charges.
		d.Ticket = a.ticket
		if ch.Shadow {
			d.Ticket += a.Enforced
		}
		for j := range i {
			if r.accountOf[j] == at && charges[j].Shadow == ch.Shadow {
				d.Ticket += charges[j].Cost
			}
		}
		b.holds.add(idRange{a.name, d.Ticket, ch.Cost})
	}
}
