// Package jsonschema validates files by the JSON schemas of weir, for tests: what loads must have the
// form of its schema. It knows the keywords that these schemas use, and reports any other.
package jsonschema

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/internal/files/document"
)

// Schema is a schema whose references are to its own definitions. One goroutine may use it.
type Schema struct {
	Root     map[string]any
	patterns map[string]*regexp.Regexp
}

// Parse returns the schema of a text.
func Parse(t testing.TB, text []byte) *Schema {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	return &Schema{root, make(map[string]*regexp.Regexp)}
}

// Definition returns what a name such as "rule" or "#/$defs/rule" stands for.
func (s *Schema) Definition(name string) map[string]any {
	return s.Root["$defs"].(map[string]any)[strings.TrimPrefix(name, "#/$defs/")].(map[string]any)
}

// Value returns n as encoding/json would have it. A text that is no number of JSON, such as 010,
// stays a text.
func Value(n *document.Node) any {
	switch {
	case n.Kind == document.List:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = Value(item)
		}
		return items
	case n.Kind == document.Map:
		object := make(map[string]any)
		for _, e := range n.Entries {
			object[e.Name.Text] = Value(e.Value)
		}
		return object
	case n.IsNull():
		return nil
	case n.IsNumberOrBoolean():
		var v any
		if json.Unmarshal([]byte(strings.ToLower(n.Text)), &v) == nil {
			return v
		}
	}
	return n.Text
}

// Validate returns where value does not have the form of the schema, "" if it does. path is where the
// value is.
func (s *Schema) Validate(path string, value any) string { return s.validate(path, s.Root, value) }

// pattern returns a regular expression, which is compiled once.
func (s *Schema) pattern(text string) *regexp.Regexp {
	if s.patterns[text] == nil {
		s.patterns[text] = regexp.MustCompile(text)
	}
	return s.patterns[text]
}

// schemas returns an argument that is a list of schemas.
func schemas(arg any) (all []map[string]any) {
	for _, one := range arg.([]any) {
		all = append(all, one.(map[string]any))
	}
	return all
}

func (s *Schema) validate(path string, schema map[string]any, value any) string {
	object, isObject := value.(map[string]any)
	items, isArray := value.([]any)
	text, isString := value.(string)
	number, isNumber := value.(float64)
	wrong := func(format string, args ...any) string { return path + ": " + fmt.Sprintf(format, args...) }
	has := func(of map[string]any) bool { return s.validate(path, of, value) == "" }
	is := func(kind any) bool {
		return map[string]bool{
			"object": isObject, "array": isArray, "string": isString, "number": isNumber,
			"integer": isNumber && number == math.Trunc(number), "boolean": value == true || value == false,
		}[kind.(string)]
	}
	lacks := func(names any) string {
		for _, name := range names.([]any) {
			if _, has := object[name.(string)]; isObject && !has {
				return wrong("lacks %v", name)
			}
		}
		return ""
	}
	for keyword, arg := range schema {
		why := ""
		switch keyword {
		case "$schema", "$defs", "title", "description", "default", "examples":
		case "$ref":
			why = s.validate(path, s.Definition(arg.(string)), value)
		case "type":
			kinds, several := arg.([]any)
			if !several {
				kinds = []any{arg}
			}
			if !slices.ContainsFunc(kinds, is) {
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
			why = lacks(arg)
		case "dependentRequired":
			for name, names := range arg.(map[string]any) {
				if _, has := object[name]; has && why == "" {
					why = lacks(names)
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
			first, _ := schema["prefixItems"].([]any)
			for i, v := range items {
				if i >= len(first) && why == "" {
					why = s.validate(path+"."+strconv.Itoa(i), arg.(map[string]any), v)
				}
			}
		case "prefixItems":
			for i, of := range schemas(arg) {
				if i < len(items) && why == "" {
					why = s.validate(path+"."+strconv.Itoa(i), of, items[i])
				}
			}
		case "minItems":
			if isArray && float64(len(items)) < arg.(float64) {
				why = wrong("is empty")
			}
		case "maxItems":
			if isArray && float64(len(items)) > arg.(float64) {
				why = wrong("is too long")
			}
		case "allOf":
			for _, of := range schemas(arg) {
				if why == "" {
					why = s.validate(path, of, value)
				}
			}
		case "anyOf", "oneOf":
			valid := 0
			for _, of := range schemas(arg) {
				if has(of) {
					valid++
				}
			}
			if valid == 0 || valid > 1 && keyword == "oneOf" {
				why = wrong("is %d of %s", valid, keyword)
			}
		case "not":
			if has(arg.(map[string]any)) {
				why = wrong("is what it must not be")
			}
		case "if":
			branch := "else"
			if has(arg.(map[string]any)) {
				branch = "then"
			}
			if of, is := schema[branch].(map[string]any); is {
				why = s.validate(path, of, value)
			}
		case "then", "else": // see if
		case "pattern":
			if isString && !s.pattern(arg.(string)).MatchString(text) {
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
