package redisbackend

import (
	"fmt"
	"math"

	"github.com/weir-go/weir/core"
)

// account is what all charges of one Take on one key come to.
type account struct {
	charge   *core.Charge // the first of them
	name     string
	limit    *encoded
	enforced int64
	shadow   int64
	shadows  bool // it has shadow charges, though they may sum to 0
}

// accountsOf appends the accounts of charges, and to each charge's place in
// owners the index of its account.
func (b *Backend) accountsOf(charges []core.Charge, accounts []account, owners []int) ([]account, []int, error) {
	for i := range charges {
		ch := &charges[i]
		if ch.Cost < 0 {
			return nil, nil, fmt.Errorf("redisbackend: scope %q: cost must not be negative (got %d)", ch.Scope, ch.Cost)
		}
		at := find(accounts, ch)
		if at == len(accounts) {
			limit, err := b.limits.encode(ch.Limit)
			if err != nil {
				return nil, nil, fmt.Errorf("redisbackend: limit of scope %q: %w", ch.Scope, err)
			}
			accounts = append(accounts, account{charge: ch, name: b.name(ch.Scope, ch.Key), limit: limit})
		}
		a := &accounts[at]
		if a.charge.Limit != ch.Limit {
			return nil, nil, fmt.Errorf("redisbackend: scope %q is charged twice for one key, by limits %v and %v: rules of one scope need equal limits", ch.Scope, a.charge.Limit, ch.Limit)
		}
		if ch.Shadow {
			a.shadow, a.shadows = sum(a.shadow, ch.Cost), true
		} else {
			a.enforced = sum(a.enforced, ch.Cost)
		}
		owners = append(owners, at)
	}
	return accounts, owners, nil
}

// find returns the index of the account of ch, or len(accounts).
func find(accounts []account, ch *core.Charge) int {
	for i := range accounts {
		if other := accounts[i].charge; other.Key == ch.Key && other.Scope == ch.Scope {
			return i
		}
	}
	return len(accounts)
}

// units returns what a charges in the form of take.lua.
func (a *account) units() any {
	if !a.shadows {
		return a.enforced
	}
	return fmt.Sprint(a.enforced, ",", a.shadow)
}

// sum returns a + b, or a number above every limit.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// width is how many numbers take.lua says of a.
func (a *account) width(mode mode) int {
	n := a.numbers()
	if a.shadows {
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
