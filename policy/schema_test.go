package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/jsonschema"
)

// validateFile returns where a file does not have the form of s, "" if it does.
func validateFile(s *jsonschema.Schema, name string, text []byte) string {
	root, mistakes := parseYAML(name, text)
	if root == nil || mistakes != nil {
		return collect(mistakes).Error()
	}
	return s.Validate(name, jsonschema.Value(root))
}

// same reports fields that the schema or the decoder lacks, or requires alone.
func same[T any](t *testing.T, s *jsonschema.Schema, o *object[T]) {
	t.Helper()
	definition := s.Definition(o.name)
	properties := definition["properties"].(map[string]any)
	required, _ := definition["required"].([]any)
	for _, f := range o.fields {
		if properties[f.name] == nil {
			t.Errorf("%s: the schema lacks %s", o.name, f.name)
		}
		delete(properties, f.name)
		if slices.Contains(required, any(f.name)) != f.required {
			t.Errorf("%s: %s is required by schema or decoder alone", o.name, f.name)
		}
	}
	for name := range properties {
		t.Errorf("%s: the decoder lacks %s", o.name, name)
	}
	if definition["additionalProperties"] != false {
		t.Errorf("%s: the schema allows unknown fields", o.name)
	}
	delete(s.Root["$defs"].(map[string]any), o.name)
}

func TestSchemaAndDecoderHaveTheSameFields(t *testing.T) {
	s := jsonschema.Parse(t, Schema())
	rule := s.Definition("rule")["properties"].(map[string]any)
	for field, words := range map[string][]string{"unit": unitWords, "on-failure": failureWords} {
		if got := fmt.Sprint(rule[field].(map[string]any)["enum"]); got != fmt.Sprint(words) {
			t.Errorf("%s: the schema has %v, the decoder %v", field, got, words)
		}
	}
	same(t, s, &fileObject)
	same(t, s, &programObject)
	same(t, s, &clientObject)
	same(t, s, &singleHeaderObject)
	same(t, s, &agentsObject)
	same(t, s, &agentDirectoryObject)
	same(t, s, &ruleObject)
	same(t, s, &planObject)
	same(t, s, &overrideObject)
	same(t, s, &costObject)
	same(t, s, &finalObject)
	same(t, s, &shedObject)
	same(t, s, &shedClassObject)
	for name, definition := range s.Root["$defs"].(map[string]any) {
		if definition.(map[string]any)["properties"] != nil {
			t.Errorf("the test compares no %s", name)
		}
	}
}

func TestGoodFilesHaveTheFormOfTheSchema(t *testing.T) {
	s := jsonschema.Parse(t, Schema())
	paths, _ := filepath.Glob("testdata/good/*")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if why := validateFile(s, path, text); why != "" {
			t.Error(why)
		}
	}
}

// What the schema cannot know is in the list: mistakes within texts, or between fields.
func TestBadFilesDoNotHaveTheFormOfTheSchema(t *testing.T) {
	beyond := strings.Fields("duplicate-fields client-ranges client-header client-header-open keys undeclared " +
		"not-supplied no-client patterns other-patterns routes scopes json limits modes concurrent " +
		"values names-without-quotes agents-empty agents-missing agents-overrides")
	s := jsonschema.Parse(t, Schema())
	paths, _ := filepath.Glob("testdata/bad/*")
	for _, path := range paths {
		ext := filepath.Ext(path)
		if ext == ".txt" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if validateFile(s, path, text) == "" && !slices.Contains(beyond, strings.TrimSuffix(filepath.Base(path), ext)) {
			t.Errorf("%s has the form of the schema", path)
		}
	}
}
