package policy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// manyRules is a file of n rules of every kind.
func manyRules(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nclient: {peer: true}\nprogram: {keys: [user], plans: [plan]}\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: rule-%d\n    match:\n      - POST /service-%d/{id}\n"+
			"    limit: token-bucket 100/minute burst 20\n    key: {first: [user, address]}\n", i, i)
		if i%4 == 0 {
			b.WriteString("    cost:\n      - {match: POST /big, units: 10}\n    mode: shadow\n")
		}
	}
	return []byte(b.String())
}

func TestTwoThousandRulesLoad(t *testing.T) {
	p, err := policy.Parse("many.yaml", manyRules(2000), names)
	if err != nil || len(p.Rules()) != 2000 {
		t.Fatal(err)
	}
}

// The bar is 50 ms.
func BenchmarkParse2000Rules(b *testing.B) {
	text := manyRules(2000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := policy.Parse("many.yaml", text, names); err != nil {
			b.Fatal(err)
		}
	}
}

// longLists is files of some size that consist of one list or map. Where reading an entry
// looks at those before it, such a file takes minutes to read.
func longLists(size int) map[string]string {
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const rule = "version: 1\nprogram: {keys: [user], plans: [plan]}\nrules:\n  - name: a\n    key: user\n"
	return map[string]string{
		"patterns": rule + "    limit: 1/s\n    match: [" + many("/%x, ") + "]\n",
		"plans":    rule + "    limit: {by: plan, default: 1/s, plans: {" + many("p%x: 1/s, ") + "}}\n",
		"statuses": rule + "    limit: 1/s\n    final-cost: [{units: 1, status: [" + strings.Repeat("401, ", size/5) +
			"]}]\n",
		"overrides": rule + "    limit: 1/s\n    overrides: [" + many("{for: {user: u%x}, limit: 2/s}, ") + "]\n",
		"parts":     strings.Replace(rule, "key: user", "key: ["+many("header h%x, ")+"]\n    limit: 1/s\n", 1),
		"lists":     "lists: {" + many("l%x: 192.0.2.1, ") + "}\n" + rule + "    limit: 1/s\n",
	}
}

func TestLongListsLoad(t *testing.T) {
	for name, text := range longLists(100_000) {
		p, err := policy.Parse("long.yaml", []byte(text), names)
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
		} else if changes := p.Changes(p); len(changes) > 0 {
			t.Errorf("%s differ from themselves", name)
		}
	}
	err := policy.Check("long.yaml", []byte("version: 1\n"+strings.Repeat("rulez: 1\n", 10_000)))
	if len(policy.Mistakes(err)) < 10_000 {
		t.Errorf("%.200v", err)
	}
}

// A larger file takes no more time for a byte.
func BenchmarkParseLongLists(b *testing.B) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		for name, text := range longLists(size) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := policy.Parse("long.yaml", []byte(text), names); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDecide compares a limiter of a file with the same in code. A rule with match
// may cost 60 ns more than one without.
func BenchmarkDecide(b *testing.B) {
	fromFile := func(rule string) []core.Rule[request] {
		p, err := policy.Parse("bench.yaml",
			[]byte("version: 1\nclient: {peer: true}\nrules:\n  - name: a\n    key: address\n"+
				"    limit: 1000000000/second\n"+rule), names)
		if err != nil {
			b.Fatal(err)
		}
		return p.Rules()
	}
	second := core.Rule[request]{
		Name: "b", Limit: limits.SlidingWindow(limits.PerSecond(1_000_000_000)), Key: keyfuncs.Address(keyfuncs.Peer),
	}
	code := second
	code.Name = "a"
	none := code
	none.Key = core.When(func(request) bool { return false }, code.Key)
	for _, bench := range []struct {
		name  string
		rules []core.Rule[request]
	}{
		{"code", []core.Rule[request]{code}},
		{"file", fromFile("")},
		{"file with overrides", fromFile("    overrides: [{for: {address: 192.0.2.1}, limit: 1000000000/second}]\n")},
		{"code that applies, and another", []core.Rule[request]{code, second}},
		{"file that matches, and another", append(fromFile("    match: POST /oauth/{provider}/token\n"), second)},
		{"code that does not apply, and another", []core.Rule[request]{none, second}},
		{"file that does not match, and another",
			append(fromFile("    match: POST /oauth/{provider}/tokens\n"), second)},
		{"file that does not match a subtree, and another", append(fromFile("    match: /api/\n"), second)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := core.MustNew(core.Config[request]{Rules: bench.rules})
			r := send(http.MethodPost, "/oauth/github/token", "192.0.2.1")
			b.ReportAllocs()
			for b.Loop() {
				l.Decide(r.Context(), r)
			}
		})
	}
}

func TestAMatchAllocatesNothing(t *testing.T) {
	allocations := func(rule string) float64 {
		p, err := policy.Parse("bench.yaml",
			[]byte("version: 1\nclient: {peer: true}\nrules:\n"+
				"  - {name: b, key: everybody, limit: 1000000000/second}\n  - name: a\n    key: everybody\n"+
				"    limit: 1000000000/second\n"+rule), names)
		if err != nil {
			t.Fatal(err)
		}
		l := core.MustNew(core.Config[request]{Rules: p.Rules()})
		r := send(http.MethodPost, "/oauth/github/token", "192.0.2.1")
		return testing.AllocsPerRun(1000, func() { l.Decide(r.Context(), r) })
	}
	without := allocations("")
	for _, rule := range []string{
		"    match: POST /oauth/{provider}/token\n", "    match: /other\n", "    match: /\n    except: GET /health\n",
	} {
		if got := allocations(rule); got > without {
			t.Errorf("%q: %v allocations, %v without", rule, got, without)
		}
	}
}
