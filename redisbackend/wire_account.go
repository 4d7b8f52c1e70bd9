package redisbackend

import (
	"fmt"
	"strconv"

	"github.com/weir-go/weir/limits"
)

// account is the sum of all charges of one Take on one key: what take.lua is told of it, and
// how its reply is read.
type account struct {
	limits.Account
	name     string
	limit    *encoded
	enforces bool  // it has charges that are not Shadow, perhaps of no units
	settles  bool  // it has charges that last, and gets a ticket
	lasts    int64 // the longest of them, microseconds
	ticket   int64 // of a concurrency limit: the first id of its units
}

// accountsOf merges charges into the accounts of r, and sets the owner of each charge.
func (b *Backend) accountsOf(charges []limits.Charge, r *request, mode mode) (err error) {
	r.merged, r.owners, err = limits.Accounts(charges, r.merged, r.owners)
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	for _, a := range r.merged {
		limit, err := b.encode(a.Limit, mode.instant)
		if err != nil {
			return fmt.Errorf("redisbackend: limit of scope %q: %w", a.Scope, err)
		}
		if limit.Held {
			r.holds = true
			r.accounts = append(r.accounts, b.heldAccount(a, limit, mode))
			continue
		}
		r.accounts = append(r.accounts, account{Account: a, name: b.name(a.Scope, a.Key), limit: limit})
	}
	for i := range charges {
		a := &r.accounts[r.owners[i]]
		a.enforces = a.enforces || !charges[i].Shadow
		if lasts := charges[i].Lasts; lasts > 0 {
			a.settles, a.lasts = true, max(a.lasts, lasts.Microseconds())
		}
	}
	return nil
}

// formOf returns a text that is the same for requests that are alike but for their keys.
func formOf(accounts []account, mode mode) string {
	if a := &accounts[0]; len(accounts) == 1 && !mode.peeks && a.Enforced == 1 && !a.HasShadow && !a.settles {
		return a.limit.takesOne
	}
	text := append(make([]byte, 0, 64*len(accounts)), mode.name()...)
	for i := range accounts {
		text = append(append(append(text, ' '), accounts[i].limit.text.(string)...), '=')
		text = accounts[i].appendUnits(text)
	}
	return string(text)
}

// units returns the units of an account of a request as an argument of take.lua.
func (a *account) units(of *ask) any {
	held := !of.mode.peeks && a.limit.Held
	if !held && a.enforces && !a.HasShadow && !a.settles {
		return a.Enforced
	}
	var room [64]byte
	text := a.appendUnits(room[:0])
	if held {
		text = of.backend.holds.appendID(append(text, '#'), a.ticket)
	}
	return string(text)
}

// appendUnits appends the units of a as in an argument of take.lua.
func (a *account) appendUnits(to []byte) []byte {
	if a.enforces {
		to = strconv.AppendInt(to, a.Enforced, 10)
	}
	if a.HasShadow {
		to = strconv.AppendInt(append(to, ','), a.Shadow, 10)
	}
	if a.settles {
		to = strconv.AppendInt(append(to, '@'), a.lasts, 10)
	}
	return to
}

// weight returns how many keys a counts as in a call.
func (a *account) weight() int {
	if !a.limit.Held {
		return a.limit.weight
	}
	return a.limit.weight + int(a.held()/unitsWeight)
}

// waits returns how many waits a has in a reply.
func (a *account) waits() int {
	switch {
	case !a.limit.Lists:
		return 0
	case a.HasShadow:
		return 2
	}
	return 1
}

// held returns how many units a may hold, at most. More than its limit never fits.
func (a *account) held() int64 {
	most := a.Limit.Burst()
	if !a.limit.Held || a.Enforced > most {
		return 0
	}
	n := a.Enforced
	if a.Shadow <= most {
		n += a.Shadow
	}
	return n
}
