package structured

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	Name     string
	Raw      []string
	Type     string `json:"header_type"`
	Expected any
	MustFail bool `json:"must_fail"`
	CanFail  bool `json:"can_fail"`
}

func TestThePublicSuiteIsReadAsItExpects(t *testing.T) {
	folder := os.Getenv(suiteFolder)
	if folder == "" {
		t.Skip(suiteFolder + " names no folder with httpwg/structured-field-tests")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files in %s, %v", len(files), folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
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
			got, ok := tree(c.Type, c.Raw)
			if want := suiteTree(c.Type, c.Expected); ok == c.MustFail || ok && got != want {
				t.Errorf("%s: %s: %q is %s, %v, want %s", filepath.Base(file), c.Name, c.Raw, got, ok, want)
			}
		}
	}
}

// scanners are the readers of the types of fields, by their names in the suite.
var scanners = map[string]func([]string) Scanner{"list": List, "dictionary": Dictionary, "item": Item}

// tree returns what is read of a field as a text: members, items and parameters in order, of equal
// keys the last value in the first place.
func tree(grammar string, lines []string) (text string, ok bool) {
	s := scanners[grammar](lines)
	var all members
	for s.Member() {
		key, value := s.Key, s.Value
		if grammar != "dictionary" {
			key = strconv.Itoa(len(all.keys))
		}
		var inner []string
		for s.Item() {
			item := textOf(s.Value)
			inner = append(inner, item+parameters(&s))
		}
		read := textOf(value)
		if value.Kind == InnerList {
			read = "(" + strings.Join(inner, " ") + ")"
		}
		all.set(key, read+parameters(&s))
	}
	return all.text(grammar == "dictionary"), !s.Malformed()
}

func parameters(s *Scanner) string {
	var all members
	for s.Parameter() {
		all.set(s.Key, textOf(s.Value))
	}
	return "[" + all.text(true) + "]"
}

// members are values in the order of their keys.
type members struct {
	keys   []string
	values map[string]string
}

func (m *members) set(key, value string) {
	if m.values == nil {
		m.values = make(map[string]string)
	}
	if _, known := m.values[key]; !known {
		m.keys = append(m.keys, key)
	}
	m.values[key] = value
}

func (m *members) text(withKeys bool) string {
	var all []string
	for _, key := range m.keys {
		if text := m.values[key]; withKeys {
			all = append(all, key+"="+text)
		} else {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

func textOf(v Value) string {
	switch v.Kind {
	case Integer:
		return fmt.Sprint(v.N)
	case Decimal:
		return fmt.Sprintf("%.3f", float64(v.N)/1000)
	case Boolean:
		return fmt.Sprint(v.N == 1)
	case Date:
		return fmt.Sprint("date ", v.N)
	case Token:
		return "token " + v.Text
	case String:
		return strconv.Quote(strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(v.Text))
	case DisplayString:
		return "display " + strconv.Quote(string(unescaped(v.Text)))
	case Bytes:
		b, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(v.Text, "="))
		return fmt.Sprintf("bytes %x", b)
	}
	return ""
}

// suiteTree is tree of what the suite expects.
func suiteTree(grammar string, expected any) string {
	if expected == nil {
		return ""
	}
	if grammar == "item" {
		return suiteMember(expected)
	}
	var all members
	for i, member := range expected.([]any) {
		if grammar == "dictionary" {
			pair := member.([]any)
			all.set(pair[0].(string), suiteMember(pair[1]))
		} else {
			all.set(strconv.Itoa(i), suiteMember(member))
		}
	}
	return all.text(grammar == "dictionary")
}

// suiteMember returns an item or an inner list, with its parameters.
func suiteMember(member any) string {
	pair := member.([]any)
	var all members
	for _, parameter := range pair[1].([]any) {
		p := parameter.([]any)
		all.set(p[0].(string), suiteValue(p[1]))
	}
	return suiteValue(pair[0]) + "[" + all.text(true) + "]"
}

func suiteValue(value any) string {
	switch v := value.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return fmt.Sprintf("%.3f", f)
		}
		return v.String()
	case bool:
		return fmt.Sprint(v)
	case string:
		return strconv.Quote(v)
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, suiteMember(item))
		}
		return "(" + strings.Join(items, " ") + ")"
	}
	typed := value.(map[string]any)
	switch v := typed["value"]; typed["__type"] {
	case "token":
		return "token " + v.(string)
	case "date":
		return "date " + v.(json.Number).String()
	case "displaystring":
		return "display " + strconv.Quote(v.(string))
	case "binary":
		b, err := base32.StdEncoding.DecodeString(v.(string))
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf("bytes %x", b)
	}
	panic(fmt.Sprint("unknown type of ", value))
}
