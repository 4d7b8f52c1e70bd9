package descriptors_test

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/gateway/descriptors"
)

// documentOf returns a file as another library of YAML reads it.
func documentOf(t *testing.T, name, text string) descriptors.Document {
	t.Helper()
	d := descriptors.Document{Name: name}
	if err := yaml.Unmarshal([]byte(text), &d.Fields); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestADocumentHasTheLimitsOfItsFile(t *testing.T) {
	for name, text := range map[string]string{
		"nested": nested, "wild": wild, "plain": plain, "named": named, "quotas": quotas, "several": several,
		"together": together,
	} {
		text = "domain: d\n" + text
		ofFile, err := descriptors.Parse(descriptors.File{Name: name, Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		ofDocument, err := descriptors.ParseDocuments(documentOf(t, name, text))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(ofFile, ofDocument) {
			t.Errorf("%s: got %+v, want %+v", name, ofDocument, ofFile)
		}
	}
}

func TestADocumentHasTheMistakesOfItsFile(t *testing.T) {
	const file = `domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: month, requests_per_unit: 500000000}}
  - {key: tenant}
  - {value: acme}
  - {key: path, value: /a, share_threshold: true}
  - {key: plan, rate_limit: {unlimited: true, unit: day}, limit: 7}
  - {key: user, rate_limit: {unit: 7, requests_per_unit: 1}}
`
	ofFile, err := descriptors.Parse(descriptors.File{Name: "f", Text: []byte(file)})
	want := descriptors.Mistakes(err)
	if ofFile != nil || len(want) != 7 {
		t.Fatal(err)
	}
	_, err = descriptors.ParseDocuments(documentOf(t, "f", file))
	got := descriptors.Mistakes(err)
	if len(got) != len(want) {
		t.Fatal(err)
	}
	texts := make(map[string]bool)
	for _, m := range want {
		m.Line, m.Column = 0, 0
		m.Text = strings.ReplaceAll(m.Text, ", also in line 3", "")
		texts[m.Error()] = true
	}
	for _, m := range got {
		if !texts[m.Error()] {
			t.Errorf("got %v, want one of %v", m, texts)
		}
	}
	_, err = descriptors.ParseDocuments(descriptors.Document{Name: "a"},
		descriptors.Document{Name: "b", Fields: map[string]any{"domain": make(chan int)}})
	if err == nil || !strings.Contains(err.Error(), "a: domain is required") ||
		!strings.Contains(err.Error(), "b: a chan int is no value of a document") {
		t.Error(err)
	}
}
