package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// schemaValidator validates by the keywords that our schema uses, and by no others.
type schemaValidator struct{ root map[string]any }

func newSchemaValidator(t testing.TB) *schemaValidator {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return &schemaValidator{root}
}

func (s *schemaValidator) definition(ref string) map[string]any {
	return s.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
}

// validate returns where value does not have the form of schema, "" if it does.
func (s *schemaValidator) validate(path string, schema map[string]any, value any) string {
	object, isObject := value.(map[string]any)
	items, isArray := value.([]any)
	text, isString := value.(string)
	number, isNumber := value.(float64)
	wrong := func(format string, args ...any) string { return path + ": " + fmt.Sprintf(format, args...) }
	for keyword, arg := range schema {
		why := ""
		switch keyword {
		case "$schema", "$defs", "title", "description", "default", "examples":
		case "$ref":
			why = s.validate(path, s.definition(arg.(string)), value)
		case "type":
			ok := map[string]bool{
				"object": isObject, "array": isArray, "string": isString,
				"integer": isNumber && number == math.Trunc(number), "boolean": value == true || value == false,
			}
			if !ok[arg.(string)] {
				why = wrong("is no %v", arg)
			}
		case "const":
			if value != arg {
				why = wrong("is not %v", arg)
			}
		case "enum":
			if !slices.Contains(arg.([]any), value) {
				why = wrong("is none of %v", arg)
			}
		case "required":
			for _, name := range arg.([]any) {
				if _, has := object[name.(string)]; isObject && !has {
					why = wrong("lacks %v", name)
				}
			}
		case "properties":
			for name, of := range arg.(map[string]any) {
				if v, has := object[name]; has && why == "" {
					why = s.validate(path+"."+name, of.(map[string]any), v)
				}
			}
		case "additionalProperties":
			known, _ := schema["properties"].(map[string]any)
			for name, v := range object {
				if _, has := known[name]; has || why != "" {
					continue
				}
				if arg == false {
					why = wrong("has %q", name)
				} else {
					why = s.validate(path+"."+name, arg.(map[string]any), v)
				}
			}
		case "propertyNames":
			for name := range object {
				if why == "" {
					why = s.validate(path+"."+name, arg.(map[string]any), name)
				}
			}
		case "minProperties":
			if isObject && float64(len(object)) < arg.(float64) {
				why = wrong("is empty")
			}
		case "items":
			for i, v := range items {
				if why == "" {
					why = s.validate(path+"."+strconv.Itoa(i), arg.(map[string]any), v)
				}
			}
		case "minItems":
			if isArray && float64(len(items)) < arg.(float64) {
				why = wrong("is empty")
			}
		case "anyOf", "oneOf":
			var reasons []string
			for _, of := range arg.([]any) {
				if r := s.validate(path, of.(map[string]any), value); r != "" {
					reasons = append(reasons, r)
				}
			}
			if valid := len(arg.([]any)) - len(reasons); valid == 0 || valid > 1 && keyword == "oneOf" {
				why = wrong("is %d of %s", valid, keyword)
			}
		case "pattern":
			if isString && !regexp.MustCompile(arg.(string)).MatchString(text) {
				why = wrong("%q does not match %v", text, arg)
			}
		case "minLength":
			if isString && float64(utf8.RuneCountInString(text)) < arg.(float64) {
				why = wrong("is empty")
			}
		case "maxLength":
			if isString && float64(utf8.RuneCountInString(text)) > arg.(float64) {
				why = wrong("is too long")
			}
		case "minimum":
			if isNumber && number < arg.(float64) {
				why = wrong("is too small")
			}
		case "maximum":
			if isNumber && number > arg.(float64) {
				why = wrong("is too large")
			}
		default:
			why = wrong("the test does not know the keyword %s", keyword)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// valueOf returns n as encoding/json would have it.
func valueOf(n *node) any {
	switch {
	case n.Kind == list:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = valueOf(item)
		}
		return items
	case n.Kind == mapping:
		object := make(map[string]any)
		for _, e := range n.Entries {
			object[e.Name.Text] = valueOf(e.Value)
		}
		return object
	case n.IsNull():
		return nil
	case n.IsNumberOrBoolean():
		var v any
		if json.Unmarshal([]byte(n.Text), &v) == nil {
			return v
		}
	}
	return n.Text
}

func (s *schemaValidator) validateFile(name string, text []byte) string {
	root, mistakes := parseYAML(name, text)
	if root == nil || mistakes != nil {
		return collect(mistakes).Error()
	}
	return s.validate(name, s.root, valueOf(root))
}

// same reports fields that the schema or the decoder lacks, or requires alone.
func same[T any](t *testing.T, s *schemaValidator, o *object[T]) {
	t.Helper()
	definition := s.definition(o.name)
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
	delete(s.root["$defs"].(map[string]any), o.name)
}

func TestSchemaAndDecoderHaveTheSameFields(t *testing.T) {
	s := newSchemaValidator(t)
	rule := s.definition("rule")["properties"].(map[string]any)
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
	for name, definition := range s.root["$defs"].(map[string]any) {
		if definition.(map[string]any)["properties"] != nil {
			t.Errorf("the test compares no %s", name)
		}
	}
}

func TestGoodFilesHaveTheFormOfTheSchema(t *testing.T) {
	s := newSchemaValidator(t)
	paths, _ := filepath.Glob("testdata/good/*")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if why := s.validateFile(path, text); why != "" {
			t.Error(why)
		}
	}
}

// What the schema cannot know is in the list: mistakes within texts, or between fields.
func TestBadFilesDoNotHaveTheFormOfTheSchema(t *testing.T) {
	beyond := strings.Fields("duplicate-fields client-ranges client-header client-header-open keys undeclared " +
		"not-supplied no-client patterns other-patterns routes scopes json limits modes concurrent " +
		"values names-without-quotes agents-empty agents-missing agents-overrides")
	s := newSchemaValidator(t)
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
		if s.validateFile(path, text) == "" && !slices.Contains(beyond, strings.TrimSuffix(filepath.Base(path), ext)) {
			t.Errorf("%s has the form of the schema", path)
		}
	}
}
