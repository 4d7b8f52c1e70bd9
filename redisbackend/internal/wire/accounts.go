package wire

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Accounts are what a request charges. Requests reuse its memory.
type Accounts struct {
	All     []Account
	Of      []int // index in All of the account of each charge
	HasHeld bool  // a concurrency limit is charged

	merged []backends.Account
}

// Charge merges charges into accounts. A concurrency limit gets new ids, unless it is peeked.
func (as *Accounts) Charge(e *Encoder, charges []backends.Charge, m Mode) (err error) {
	as.merged, as.Of, err = backends.Accounts(charges, as.merged, as.Of)
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	for j, merged := range as.merged {
		var loan Loan
		if merged.Limit.Algorithm().Holds() {
			loan.Lends = as.lends(charges, j)
		}
		encoded, err := e.encode(merged.Limit, loan.Lends, m.Instant)
		if err != nil {
			return fmt.Errorf("redisbackend: limit of scope %q: %w", merged.Scope, err)
		}
		name := e.Name(encoded.Kind, merged.Scope, merged.Key)
		as.All = append(as.All, Account{Account: merged, Encoded: encoded, Name: name})
		a := &as.All[len(as.All)-1]
		if encoded.Held {
			as.HasHeld = true
			if a.Loan = loan; loan.Lends > 0 {
				a.Loan.Holder = merged.Value
			}
			if !m.Peeks {
				a.Ticket = e.Issue(a.Held())
			}
		}
	}
	for i := range charges {
		a := &as.All[as.Of[i]]
		a.Enforces = a.Enforces || !charges[i].Shadow
		if lasts := charges[i].Lasts; lasts > 0 && !a.Encoded.Values {
			a.settles, a.lasts = true, max(a.lasts, lasts.Microseconds())
		}
	}
	return nil
}

// lends returns the longest Lends of the charges of an account.
func (as *Accounts) lends(charges []backends.Charge, account int) (longest time.Duration) {
	for i := range charges {
		if as.Of[i] == account {
			longest = max(longest, charges[i].Lends)
		}
	}
	return longest
}

// Clear empties as for reuse.
func (as *Accounts) Clear() {
	clear(as.merged)
	clear(as.All)
	*as = Accounts{All: as.All[:0], Of: as.Of[:0], merged: as.merged[:0]}
}

// Decide sets the decision on each charge. There is a result for each account.
func (as *Accounts) Decide(charges []backends.Charge, results []Result, out []limits.Decision) {
	for i, at := range as.Of {
		if charges[i].Shadow {
			out[i] = results[at].Shadow
		} else {
			out[i] = results[at].Enforced
		}
	}
}

// TicketOf returns the id of the first unit that charge i holds. The ids of the enforced charges of
// an account come first, then those of its shadow charges.
func (as *Accounts) TicketOf(i int, charges []backends.Charge) int64 {
	at := as.Of[i]
	a, shadow := &as.All[at], charges[i].Shadow
	ticket := a.Ticket
	if shadow {
		ticket += a.Enforced
	}
	for j := range i {
		if as.Of[j] == at && charges[j].Shadow == shadow {
			ticket += charges[j].Cost
		}
	}
	return ticket
}
