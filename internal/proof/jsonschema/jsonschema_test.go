package jsonschema_test

import (
	"encoding/json"
	"testing"

	"github.com/weir-go/weir/internal/files/document"
	"github.com/weir-go/weir/internal/proof/jsonschema"
)

func TestEachKeywordRefusesWhatItDescribes(t *testing.T) {
	for of, values := range map[string][2]string{ // a value that is valid, and one that is not
		`{"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}`:   {`"x"`, `1`},
		`{"type": ["string", "boolean"]}`:                             {`true`, `1`},
		`{"type": "integer"}`:                                         {`2`, `2.5`},
		`{"type": "number"}`:                                          {`2.5`, `"2"`},
		`{"const": true}`:                                             {`true`, `false`},
		`{"enum": ["a", "b"]}`:                                        {`"b"`, `"c"`},
		`{"required": ["a"]}`:                                         {`{"a": 1}`, `{"b": 1}`},
		`{"dependentRequired": {"a": ["b"]}}`:                         {`{"b": 1}`, `{"a": 1}`},
		`{"properties": {"a": {"type": "string"}}}`:                   {`{"b": 1}`, `{"a": 1}`},
		`{"properties": {"a": {}}, "additionalProperties": false}`:    {`{"a": 1}`, `{"a": 1, "b": 1}`},
		`{"additionalProperties": {"type": "string"}}`:                {`{"a": "x"}`, `{"a": 1}`},
		`{"propertyNames": {"minLength": 1}}`:                         {`{"a": 1}`, `{"": 1}`},
		`{"minProperties": 1}`:                                        {`{"a": 1}`, `{}`},
		`{"items": {"type": "string"}}`:                               {`["a", "b"]`, `["a", 1]`},
		`{"prefixItems": [{"const": 1}], "items": {"const": 2}}`:      {`[1, 2, 2]`, `[1, 1]`},
		`{"prefixItems": [{"const": 1}]}`:                             {`[1, 7]`, `[2]`},
		`{"minItems": 1}`:                                             {`[1]`, `[]`},
		`{"maxItems": 1}`:                                             {`[1]`, `[1, 2]`},
		`{"allOf": [{"minimum": 1}, {"maximum": 3}]}`:                 {`2`, `4`},
		`{"anyOf": [{"minimum": 5}, {"maximum": 3}]}`:                 {`6`, `4`},
		`{"oneOf": [{"minimum": 1}, {"maximum": 3}]}`:                 {`4`, `2`},
		`{"not": {"minimum": 1}}`:                                     {`0`, `2`},
		`{"if": {"minimum": 1}, "then": {"maximum": 3}}`:              {`0`, `4`},
		`{"if": {"minimum": 1}, "then": {}, "else": {"maximum": -1}}`: {`2`, `0`},
		`{"pattern": "^a"}`:                                           {`"ab"`, `"b"`},
		`{"minLength": 2}`:                                            {`"äö"`, `"ä"`},
		`{"maxLength": 2}`:                                            {`"äö"`, `"abc"`},
		`{"deprecated": true}`:                                        {``, `1`},
	} {
		s := jsonschema.Parse(t, []byte(of))
		for i, text := range values {
			if text == "" {
				continue
			}
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if why := s.Validate("value", value); (why == "") != (i == 0) {
				t.Errorf("%s of %s: %q", text, of, why)
			}
		}
	}
}

func TestAValueIsThatOfJSON(t *testing.T) {
	form := document.Form{MaxDepth: 4, Empty: "something"}
	root, mistakes := form.Parse([]byte("{a: [1, 2.5, True, ~, x], b: 010, c: '1', d: 2027-01-01}"))
	if mistakes != nil {
		t.Fatal(mistakes)
	}
	got, err := json.Marshal(jsonschema.Value(root))
	const want = `{"a":[1,2.5,true,null,"x"],"b":"010","c":"1","d":"2027-01-01"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
}
