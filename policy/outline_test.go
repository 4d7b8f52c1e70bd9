package policy_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/policy"
)

func TestAnOutlineSaysWhatAToolHasToKnow(t *testing.T) {
	o, err := policy.ReadOutline("weir.yaml", []byte(`version: 1
program: {keys: [user, tenant], plans: [plan], costs: [size]}
client: {peer: true}
lists: {offices: [198.51.100.0/24]}
rules:
  - name: a
    key: {first: [user, [address, header x-tenant]]}
    limit: {by: plan, plans: {pro: 5/s}, default: 1/s}
    cost: size
  - {name: c, key: address, value: header x-user, limit: distinct 5/10m}
  - {name: b, key: everybody, limit: 1/s, except: [list offices, route /x, "example.com/y"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	o.Warnings = nil
	want := &policy.Outline{
		Keys: []string{"user", "tenant"}, Plans: []string{"plan"}, Costs: []string{"size"},
		Rules: []policy.RuleOutline{
			{Name: "a", Line: 6, Key: "first [user, [address, header X-Tenant]]",
				Sources: []string{"user", "address", "header X-Tenant"}, Plan: "plan", Cost: "size", Address: true},
			{Name: "c", Line: 10, Key: "address", Value: "header X-User",
				Sources: []string{"address", "header X-User"}, Address: true},
			{Name: "b", Line: 11, Key: "everybody", Sources: []string{"everybody"},
				Address: true, Route: true, Host: true},
		},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
	if _, err := policy.ReadOutline("weir.yaml", []byte("version: 2\n")); len(policy.Mistakes(err)) != 2 {
		t.Errorf("a file with two mistakes: %v", err)
	}
}

// Each file warns of the rules that are named, of no other, and of nothing else.
func TestKeysThatAClientIsFreeToChangeAreDoubtful(t *testing.T) {
	byTenant := "{name: a, key: header X-Tenant, limit: 1/s"
	for name, file := range map[string]struct{ rules, warns string }{
		"a header":                     {byTenant + "}", "a"},
		"a cookie":                     {"{name: a, key: cookie sid, limit: 1/s}", "a"},
		"an API key":                   {"{name: a, key: api-key X-API-Key, limit: 1/s}", "a"},
		"a token":                      {"{name: a, key: bearer, limit: 1/s}", "a"},
		"an address":                   {"{name: a, key: address, limit: 1/s}", ""},
		"everybody":                    {"{name: a, key: everybody, limit: 1/s}", ""},
		"a key of the program":         {"{name: a, key: user, limit: 1/s}", ""},
		"a header beside an address":   {"{name: a, key: [address, header X-Tenant], limit: 1/s}", "a"},
		"a token or else the address":  {"{name: a, key: {first: [bearer, address]}, limit: 1/s}", "a"},
		"a header, and a rule for all": {byTenant + "}, {name: b, key: address, limit: 1/s}", ""},
		"a shadow stops nobody":        {byTenant + "}, {name: b, key: address, limit: 1/s, mode: shadow}", "a"},
		"nor does a limit on other values": {
			byTenant + "}, {name: b, key: address, value: user, limit: distinct 5/s}", "a",
		},
		"a limit on these values": {
			byTenant + "}, {name: b, key: address, value: header X-Tenant, limit: distinct 5/s}", "",
		},
		"nor does a part": {
			byTenant + "}, {name: b, key: address, limit: 1/s, mode: enforce 50%}", "a",
		},
		"a disabled rule":         {byTenant + ", mode: disabled}", ""},
		"two headers":             {byTenant + "}, {name: b, key: bearer, limit: 1/s}", "a b"},
		"a rule of another place": {byTenant + "}, {name: b, match: /login, key: address, limit: 1/s}", "a"},
		"a rule of the same place": {
			byTenant + ", match: [/a, /b]}, {name: b, match: [/b, /a, /c], key: address, limit: 1/s}", "",
		},
		"a rule of one of two places": {
			byTenant + ", match: [/a, /b]}, {name: b, match: /a, key: address, limit: 1/s}", "a",
		},
		"a rule of all below": {
			byTenant + ", match: POST /api/x}, {name: b, match: /api/, key: address, limit: 1/s}", "",
		},
		"a rule of all below, by wildcard": {
			byTenant + `, match: "/{tenant}/{id}/x"}, {name: b, match: "/{t}/", key: address, limit: 1/s}`, "",
		},
		"a rule of something below": {
			byTenant + ", match: /api/}, {name: b, match: /api/x/, key: address, limit: 1/s}", "a",
		},
		"a rule of every path": {byTenant + "}, {name: b, match: /, key: address, limit: 1/s}", ""},
		"a rule of another method": {
			byTenant + ", match: POST /a}, {name: b, match: GET /a, key: address, limit: 1/s}", "a",
		},
		"GET has HEAD": {
			byTenant + ", match: HEAD /a}, {name: b, match: GET /a, key: address, limit: 1/s}", "",
		},
		"a rule of one method": {
			byTenant + ", match: /a}, {name: b, match: GET /a, key: address, limit: 1/s}", "a",
		},
		"a rule of one host": {
			byTenant + ", match: /a}, {name: b, match: example.com/a, key: address, limit: 1/s}", "a",
		},
		"a rule of a route":        {byTenant + ", route: /a}, {name: b, route: /a, key: address, limit: 1/s}", ""},
		"a route is no pattern":    {byTenant + ", route: /a}, {name: b, match: /a, key: address, limit: 1/s}", "a"},
		"a rule with an exception": {byTenant + "}, {name: b, except: /a, key: address, limit: 1/s}", "a"},
		"rules with one exception": {
			byTenant + ", except: [/b, /a]}, {name: b, except: /a, key: address, limit: 1/s}", "",
		},
	} {
		o, err := policy.ReadOutline("weir.yaml",
			[]byte("version: 1\nprogram: {keys: [user]}\nclient: {peer: true}\nrules: ["+file.rules+"]\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var warns []string
		for _, w := range o.Warnings {
			warns = append(warns, w.Rule)
			if w.Field != "key" || w.Line != 4 || w.Column < 9 {
				t.Errorf("%s: %v", name, w)
			}
		}
		if got := strings.Join(warns, " "); got != file.warns {
			t.Errorf("%s: warns of %q, want %q", name, got, file.warns)
		}
	}
}

func TestAddressesThatClientsChooseAreDoubtful(t *testing.T) {
	for bits, want := range map[int]int{32: 0, 64: 0, 65: 1, 128: 1} {
		o, err := policy.ReadOutline("weir.yaml",
			fmt.Appendf(nil, "version: 1\nclient: {peer: true, ipv6-prefix: %d}\n"+
				"rules: [{name: a, key: address, limit: 1/s}]\n", bits))
		if err != nil || len(o.Warnings) != want {
			t.Errorf("%d bits: %v, %v", bits, o.Warnings, err)
		}
	}
}

func ExampleReadOutline() {
	o, err := policy.ReadOutline("weir.yaml", []byte(`version: 1
program: {keys: [customer]}
client: {peer: true}
rules:
  - {name: per-tenant, key: header X-Tenant, limit: 100/minute}
  - name: per-customer
    match: /api/
    key: {first: [customer, address]}
    limit: 10/minute
    overrides: [{for: {customer: ann}, limit: 20/minute, until: 2020-01-01}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the program supplies", o.Keys)
	for _, rule := range o.Rules {
		fmt.Println(rule.Name, "reads", strings.Join(rule.Sources, ", "))
	}
	for _, warning := range o.Warnings {
		fmt.Println(warning)
	}
	// Output:
	// the program supplies [customer]
	// per-tenant reads header X-Tenant
	// per-customer reads customer, address
	// weir.yaml:5:29: rule "per-tenant": key: a client gets a new limit by changing its header X-Tenant, unless a gateway of yours sets it: add a rule by address
	// weir.yaml:10:17: rule "per-customer": overrides: the override ended at the beginning of 2020-01-01 in UTC: remove it
}
