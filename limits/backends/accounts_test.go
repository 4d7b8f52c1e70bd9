package backends_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func TestChargesOnOneKeyAreOneAccount(t *testing.T) {
	limit := perMinute(10)
	accounts, owners, err := backends.Accounts([]backends.Charge{
		{Scope: "a", Key: "k", Limit: limit, Cost: 2},
		{Scope: "b", Key: "k", Limit: limit, Cost: 3, Shadow: true},
		{Scope: "a", Key: "k", Limit: limit, Cost: 4, Shadow: true},
		{Scope: "a", Key: "k", Limit: limit, Cost: math.MaxInt64},
		{Scope: "", Key: "", Limit: limit, Cost: 0, Shadow: true},
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []backends.Account{
		{Scope: "a", Key: "k", Limit: limit, Enforced: math.MaxInt64, Shadow: 4, HasShadow: true},
		{Scope: "b", Key: "k", Limit: limit, Shadow: 3, HasShadow: true},
		{Limit: limit, HasShadow: true},
	}
	if !slices.Equal(accounts, want) {
		t.Errorf("accounts\n%+v, want\n%+v", accounts, want)
	}
	if !slices.Equal(owners, []int{0, 1, 0, 0, 2}) {
		t.Errorf("owners %v", owners)
	}
}

func TestAccountsRefusesWhatIsWrongForAnyBackend(t *testing.T) {
	for want, charges := range map[string][]backends.Charge{
		"cost must not be negative (got -1)": {{Scope: "a", Limit: perMinute(1), Cost: -1}},
		"rules of one scope need equal limits": {
			{Scope: "a", Key: "k", Limit: perMinute(1), Cost: 1}, {Scope: "a", Key: "k", Limit: perMinute(2), Cost: 1},
		},
		"one key is charged with two values": {
			{Scope: "a", Key: "k", Limit: perMinute(1), Cost: 1, Value: 1}, {Scope: "a", Key: "k", Limit: perMinute(1)},
		},
		"rules that count values need a scope each": {
			{Scope: "a", Key: "k", Limit: names, Cost: 1, Value: 1},
			{Scope: "a", Key: "k", Limit: names, Cost: 1, Value: 2},
		},
	} {
		if _, _, err := backends.Accounts(charges, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTheUnitsOfAValueAreOne(t *testing.T) {
	accounts, _, err := backends.Accounts([]backends.Charge{
		{Scope: "a", Key: "k", Limit: names, Cost: 2, Value: 1},
		{Scope: "a", Key: "k", Limit: names, Cost: 1, Value: 1},
		{Scope: "a", Key: "k", Limit: names, Cost: 3, Value: 1, Shadow: true},
	}, nil, nil)
	want := backends.Account{Scope: "a", Key: "k", Limit: names, Value: 1, Enforced: 1, Shadow: 1, HasShadow: true}
	if err != nil || len(accounts) != 1 || accounts[0] != want {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
}

var names = limits.Distinct(limits.PerMinute(5))

func perMinute(n int64) limits.Limit { return limits.SlidingWindow(limits.PerMinute(n)) }
