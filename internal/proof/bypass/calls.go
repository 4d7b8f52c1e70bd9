package bypass

import (
	"strings"
	"testing"
)

// Calls tries to get past the limits of a policy file on calls. open starts a server with the rules
// of the file and the methods /parity.v1.First/Unary and others. It returns a function that calls
// the server with a method of HTTP and a path, and reports whether the handler ran.
func Calls(t *testing.T, open func(t *testing.T, file string) func(method, path string) bool) {
	const path = "/parity.v1.First/Unary"
	for name, rule := range map[string]string{
		"match": "match: POST " + path, "any method": "match: " + path,
		"subtree": "match: /parity.v1.First/", "wildcard": "match: POST /{service}/{method}",
	} {
		t.Run(name, func(t *testing.T) {
			call := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, key: address, limit: "+
				"1/day, "+strings.Replace(rule, "match: ", "match: \"", 1)+"\"}\n")
			if !call("POST", path) {
				t.Fatal("the handler is not reached")
			}
			for _, method := range methods {
				for _, target := range spellings(path) {
					if call(method, target) {
						t.Errorf("%s %s escapes the limit", method, target)
					}
				}
				// without a slash: GO-2026-4762 of gRPC
				for _, target := range []string{path[1:], "", "/", "*"} {
					if call(method, target) {
						t.Errorf("%s %q escapes the limit", method, target)
					}
				}
			}
		})
	}
}
