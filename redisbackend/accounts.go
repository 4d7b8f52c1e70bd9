package redisbackend

import (
	"fmt"

	"github.com/weir-go/weir/core"
)

// account is what all charges of one Take on one key come to.
type account struct {
	core.Account
	name  string
	limit *encoded
}

// group groups charges into the accounts of r, and finds the owner of each charge.
func (b *Backend) group(charges []core.Charge, r *request) (err error) {
	r.grouped, r.owners, err = core.Accounts(charges, r.grouped, r.owners)
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	for _, a := range r.grouped {
		limit, err := b.limits.encode(a.Limit)
		if err != nil {
			return fmt.Errorf("redisbackend: limit of scope %q: %w", a.Scope, err)
		}
		r.accounts = append(r.accounts, account{Account: a, name: b.name(a.Scope, a.Key), limit: limit})
	}
	return nil
}

// units returns what a charges in the form of take.lua.
func (a *account) units() any {
	if !a.HasShadow {
		return a.Enforced
	}
	return fmt.Sprint(a.Enforced, ",", a.Shadow)
}

// width is how many numbers take.lua says of a.
func (a *account) width(mode mode) int {
	n := a.numbers()
	if a.HasShadow {
		n *= 2
	}
	if mode == modeShare {
		n += 5
	}
	return n
}

// weight is what a counts for in a call of the script.
func (a *account) weight() int {
	if a.limit.limit.Algorithm() == core.AlgorithmSlidingLog {
		return logWeight
	}
	return 1
}
