package backends

import (
	"fmt"
	"math"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

// Account is the sum of the charges of one [Backend.Take] on one key. A backend decides the
// enforced units of an account as one charge, and then the shadow units as one charge on top. It
// answers every charge with the decision on its part of the account.
type Account struct {
	Scope, Key string
	Limit      limits.Limit
	Value      uint64 // that of all its charges
	Enforced   int64  // units of charges that are not Shadow
	Shadow     int64  // units of Shadow charges
	HasShadow  bool   // there are Shadow charges, perhaps of 0 units
}

// Accounts groups charges by scope and key. It is a help for authors of a [Backend]. It appends the
// accounts to accounts, in the order of their first charges. For each charge it appends the index
// of its account to owners. Both slices may be nil or empty. A sum above math.MaxInt64 becomes
// that, which exceeds every limit.
//
// Under a limit that counts values a sum above 1 becomes 1.
//
// It returns an error if a cost is negative, or if two limits or two values charge one key. It does
// not validate limits.
func Accounts(charges []Charge, accounts []Account, owners []int) ([]Account, []int, error) {
	for i := range charges {
		ch := &charges[i]
		if ch.Cost < 0 {
			return nil, nil, fmt.Errorf("scope %q: cost must not be negative (got %d)", ch.Scope, ch.Cost)
		}
		at := accountOf(accounts, ch)
		if at == len(accounts) {
			accounts = append(accounts,
				Account{Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Value: ch.Value})
		}
		a, most := &accounts[at], int64(math.MaxInt64)
		switch {
		case a.Limit != ch.Limit:
			return nil, nil, errTwoLimits(ch.Scope, a.Limit, ch.Limit)
		case a.Value != ch.Value:
			return nil, nil, errTwoValues(ch.Scope)
		case a.Limit.Algorithm().CountsValues():
			most = 1
		}
		if ch.Shadow {
			a.Shadow, a.HasShadow = min(most, arith.Sum(a.Shadow, ch.Cost)), true
		} else {
			a.Enforced = min(most, arith.Sum(a.Enforced, ch.Cost))
		}
		owners = append(owners, at)
	}
	return accounts, owners, nil
}

// accountOf returns the index of the account of ch, or len(accounts).
func accountOf(accounts []Account, ch *Charge) int {
	for i := range accounts {
		if a := &accounts[i]; a.Key == ch.Key && a.Scope == ch.Scope {
			return i
		}
	}
	return len(accounts)
}

func errTwoLimits(scope string, a, b limits.Limit) error {
	return fmt.Errorf(
		"scope %q: one key is charged by %v and %v: rules of one scope need equal limits", scope, a, b)
}

func errTwoValues(scope string) error {
	return fmt.Errorf(
		"scope %q: one key is charged with two values: rules that count values need a scope each", scope)
}
