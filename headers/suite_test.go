package headers

import (
	"encoding/base32"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// suiteFolder names a folder with the JSON files of the public test suite:
// https://github.com/httpwg/structured-field-tests.
const suiteFolder = "WEIR_STRUCTURED_FIELDS"

// suiteCase is a case of the suite. Its README defines the members.
type suiteCase struct {
	Name      string
	Raw       []string
	Canonical []string
	Type      string `json:"header_type"`
	Expected  []any
	MustFail  bool `json:"must_fail"`
}

// Keys are constants of this package, and it writes no other types: see the oracle.
func TestThePublicSuiteIsWrittenAsItExpects(t *testing.T) {
	folder := os.Getenv(suiteFolder)
	if folder == "" {
		t.Skip(suiteFolder + " names no folder with httpwg/structured-field-tests")
	}
	written := 0
	for _, name := range []string{
		"string.json", "string-generated.json", "binary.json", "number.json",
		"number-generated.json", "serialisation-tests/string-generated.json",
		"serialisation-tests/number.json",
	} {
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		var cases []suiteCase
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		if err := decoder.Decode(&cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if c.Type != "item" || c.Expected == nil || len(c.Expected[1].([]any)) > 0 {
				continue
			}
			got, ok, isOurs := writtenItem(t, c.Expected[0])
			if !isOurs {
				continue
			}
			want := c.Canonical
			if want == nil {
				want = c.Raw
			}
			if written++; ok == c.MustFail || ok && got != want[0] {
				t.Errorf("%s: %s: %q, %v, want %q", name, c.Name, got, ok, want)
			}
		}
	}
	if written < 100 {
		t.Errorf("the suite has %d values that weir writes", written)
	}
}

// writtenItem returns what is written for a value of the suite. It is not ok if the value is one
// that a field cannot have, and not ours if this package writes none of its type.
func writtenItem(t *testing.T, value any) (text string, ok, isOurs bool) {
	switch v := value.(type) {
	case string:
		return string(appendString(nil, v)), isString(v), true
	case json.Number:
		n, err := v.Int64()
		return strconv.FormatInt(count(n), 10), count(n) == n, err == nil && n >= 0
	case map[string]any:
		if v["__type"] != "binary" {
			return "", false, false
		}
		b, err := base32.StdEncoding.DecodeString(v["value"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return string(appendBytes(nil, b)), true, true
	}
	return "", false, false
}
