package policy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// Editors offer the examples of a schema.
func TestTheSchemaHasATextOfEveryAlgorithm(t *testing.T) {
	examples := []string{"100/minute"}
	for _, a := range limits.Algorithms() {
		examples = append(examples, algorithm.Of(a).Example)
	}
	text, err := json.Marshal(examples)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(\[algorithm\] units/period \[burst n\]\.",\s*"examples": ).*`)
	spaced := bytes.ReplaceAll(text, []byte(`","`), []byte(`", "`))
	want := line.ReplaceAll(policy.Schema(), append([]byte("${1}"), spaced...))
	if bytes.Equal(want, policy.Schema()) {
		return
	}
	if *update {
		if err := os.WriteFile("policy.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("policy.schema.json: the examples of limit differ from %s: go test ./policy -update", text)
}
