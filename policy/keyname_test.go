package policy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/policy"
)

// The rules of a file say in words what their keys are.
func TestRulesNameTheirKeys(t *testing.T) {
	for key, want := range map[string]string{
		"address":                               "address",
		"everybody":                             "everybody",
		"header x-tenant":                       "header X-Tenant",
		"cookie sid":                            "cookie sid",
		"bearer":                                "bearer token",
		"api-key X-API-Key":                     "API key",
		"member":                                "member", // of the program
		"[address, bearer]":                     "address + bearer token",
		"{first: [api-key X-API-Key, address]}": "API key or address",
		"{first: [[address, header X-User], member]}": "address + header X-User or member",
	} {
		text := "version: 1\nclient: {peer: true}\n"
		if strings.Contains(key, "member") {
			text += "program: {keys: [member]}\n"
		}
		text += "rules:\n  - name: limited\n    key: " + key + "\n    limit: 5/s\n"
		member := func(*http.Request) (string, error) { return "", nil }
		p, err := policy.Parse("weir.yaml", []byte(text),
			policy.Names[*http.Request]{Keys: map[string]func(*http.Request) (string, error){"member": member}})
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if got := p.Rules()[0].KeyName; got != want {
			t.Errorf("%s is named %q, want %q", key, got, want)
		}
	}
}
