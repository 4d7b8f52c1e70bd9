package descriptors_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/internal/files/document"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/proof/jsonschema"
	"github.com/weir-go/weir/policy"
)

// formed has every field of a file.
const formed = `
on_failure: Closed
descriptors:
  - key: path
    value: /a/*
    share_threshold: true
    detailed_metric: true
    value_to_metric: false
    metadata: {a: [1, {b: null}]}
    rate_limit: {name: paths, unit: HOUR, unit_multiplier: 2, requests_per_unit: "007"}
  - key: 5
    shadow_mode: true
    rate_limits:
      - {unit: day, requests_per_unit: 499999999, replaces: [{name: paths}]}
      - {algorithm: Concurrent 5, hold_time: 1h30m, holder: id}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
`

// read returns a file as a document.
func read(t testing.TB, text string) map[string]any {
	t.Helper()
	form := document.Form{MaxDepth: 40, Tags: true}
	root, mistakes := form.Parse([]byte(text))
	if mistakes != nil {
		t.Fatal(mistakes)
	}
	return jsonschema.Value(root).(map[string]any)
}

// loading returns the texts of files that load.
func loading(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{
		"formed": formed, "nested": nested, "wild": wild, "plain": plain, "multiplied": multiplied, "named": named,
		"quotas": quotas, "several": several, "together": together, "flying": flying, "spending": spending,
	}
	for name, text := range files {
		files[name] = "domain: d" + text
	}
	return files
}

func TestFilesThatLoadHaveTheFormOfTheSchema(t *testing.T) {
	schema := jsonschema.Parse(t, descriptors.Schema())
	for name, text := range loading(t) {
		if _, err := descriptors.Parse(descriptors.File{Name: name, Text: []byte(text)}); err != nil {
			t.Error(err)
		}
		if why := schema.Validate(name, read(t, text)); why != "" {
			t.Error(why)
		}
	}
	paths, _ := filepath.Glob("../../examples/envoy/*/limits*")
	if len(paths) < 4 {
		t.Fatalf("found %q", paths)
	}
	for _, path := range paths {
		files, err := descriptors.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if why := schema.Validate(f.Name, read(t, string(f.Text))); why != "" {
				t.Error(why)
			}
		}
	}
}

// beyond matches what the schema cannot know: mistakes within texts, and between descriptors.
var beyond = regexp.MustCompile(`here twice|two limits by|unlimited stands alone|at most \d+ for a unit|` +
	`is the holder of the limit above|a descriptor has one|does not replace itself|no descriptor above|` +
	`is no limit of its own|is a limit in flight|algorithm: |hold_time must be|name of a price|three decimals|` +
	`from must be|no file has a domain|no number|does not go with all_or_nothing|is for values with a star`)

// Whatever is changed in a file, the reader and the schema both take it or both refuse it.
func TestAChangedFileIsRefusedByReaderAndSchema(t *testing.T) {
	schema := jsonschema.Parse(t, descriptors.Schema())
	taken, refused := 0, 0
	for name, text := range loading(t) {
		change(read(t, text), func(changed any) {
			fields, isMap := changed.(map[string]any)
			if !isMap {
				return
			}
			_, err := descriptors.ParseDocuments(descriptors.Document{Name: name, Fields: fields})
			why := schema.Validate(name, fields)
			switch shown, _ := json.Marshal(fields); {
			case err == nil && why == "":
				taken++
			case err == nil:
				t.Errorf("loads, but by the schema %s: %s", why, shown)
			case why != "":
				refused++
			case !slices.ContainsFunc(descriptors.Mistakes(err), func(m *policy.Mistake) bool {
				return beyond.MatchString(m.Text)
			}):
				t.Errorf("has the form of the schema: %v: %s", err, shown)
			}
		})
	}
	if taken < 1000 || refused < 5000 {
		t.Errorf("%d files are taken, %d refused", taken, refused)
	}
}

// others stand in place of a value.
var others = []any{
	nil, "", "x", "*", "5", "minute", -1.0, 0.0, 0.5, 7.0, 1e12, true, false, []any{}, []any{"x"}, map[string]any{},
	map[string]any{"x": 1.0},
}

// more are fields that a map may or may not have.
var more = map[string]any{
	"domain": "d", "on_failure": "open", "all_or_nothing": true, "prices": map[string]any{"p": 1.0},
	"descriptors": []any{map[string]any{"key": "k"}}, "key": "k", "value": "a*", "share_threshold": true,
	"quota_mode": true, "budget": "team", "weight": 2.5, "rate_limits": []any{},
	"rate_limit": map[string]any{"unit": "day", "requests_per_unit": 1.0}, "unit": "day", "requests_per_unit": 1.0,
	"unit_multiplier": 2.0, "unlimited": true, "algorithm": "concurrent 5", "hold_time": "10m", "holder": "id",
	"replaces": []any{map[string]any{"name": "n"}}, "name": "n", "from": "2027-01-01", "metadata": map[string]any{},
}

// change calls with with copies of value. In each of them one thing is changed.
func change(value any, with func(any)) {
	for _, other := range others {
		with(other)
	}
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			without := maps.Clone(value)
			delete(without, name)
			with(without)
			renamed := maps.Clone(without)
			renamed[name+"s"] = field
			with(renamed)
			change(field, func(changed any) {
				other := maps.Clone(value)
				other[name] = changed
				with(other)
			})
		}
		for name, field := range more {
			if _, has := value[name]; !has {
				longer := maps.Clone(value)
				longer[name] = field
				with(longer)
			}
		}
	case []any:
		for i, item := range value {
			with(slices.Delete(slices.Clone(value), i, i+1))
			with(append(slices.Clone(value), item))
			change(item, func(changed any) {
				other := slices.Clone(value)
				other[i] = changed
				with(other)
			})
		}
	}
}

// Editors offer the examples of a schema.
func TestTheSchemaHasATextOfEachAlgorithmOfDescriptors(t *testing.T) {
	want := []any{"100/minute"}
	for _, a := range algorithm.All() {
		if !a.Queues && !a.Values {
			want = append(want, a.Example)
		}
	}
	limit := jsonschema.Parse(t, descriptors.Schema()).Definition("limit")["properties"].(map[string]any)
	if got := limit["algorithm"].(map[string]any)["examples"].([]any); !slices.Equal(got, want) {
		text, _ := json.Marshal(want)
		t.Errorf("limits.schema.json: write the examples of algorithm: %s", text)
	}
}
