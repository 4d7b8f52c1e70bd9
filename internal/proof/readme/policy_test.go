package readme

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/policy"
)

// Guides whose blocks of YAML are policies.
const (
	policyGuide = "docs/policy.md"
	agentsGuide = "docs/agents.md"
)

// definition is a map of the format, from its schema.
type definition struct {
	Properties map[string]any
}

func definitions(t *testing.T) map[string]definition {
	t.Helper()
	var schema struct {
		Defs map[string]definition `json:"$defs"`
	}
	if err := json.Unmarshal(policy.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Defs
}

// asPolicy makes a file of a text: a file, some of its fields, or the fields of a rule.
func asPolicy(t *testing.T, text string) string {
	t.Helper()
	var fields []string
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.ContainsAny(name[:1], " #-") {
			fields = append(fields, name)
		}
	}
	defs := definitions(t)
	isOfFile := func(name string) bool { return defs["policy"].Properties[name] != nil }
	if slices.Contains(fields, "version") && slices.Contains(fields, "rules") {
		return text
	}
	var b strings.Builder
	if !slices.ContainsFunc(fields, isOfFile) {
		b.WriteString("rules:\n")
		for line := range strings.Lines(text) {
			fmt.Fprintf(&b, "  %s %s\n", map[bool]string{true: "-", false: " "}[b.Len() == len("rules:\n")],
				strings.TrimRight(line, "\n"))
		}
		limit := "limit: 1/s"
		if slices.Contains(fields, "no-delay") {
			limit = "limit: leaky-queue 10/s capacity 20"
		}
		if slices.Contains(fields, "value") {
			limit = "limit: distinct 5/10m"
		}
		if strings.Contains(text, "limit: distinct") {
			b.WriteString("    value: address\n")
		}
		for _, field := range []string{"name: a", "key: user", limit, "final-cost: spent"} {
			name, _, _ := strings.Cut(field, ":")
			if !slices.Contains(fields, name) && (name != "final-cost" || slices.Contains(fields, "lasts")) {
				fmt.Fprintf(&b, "    %s\n", field)
			}
		}
		fields = append(fields, "rules")
	} else {
		b.WriteString(text + "\n")
	}
	for _, field := range []string{
		"version: 1", "client: {peer: true}",
		"program: {keys: [user, user-name], plans: [plan], costs: [report-size]}",
		"lists: {offices: [198.51.100.0/24]}", "agents: {authorities: shop.example, unlisted: 1}",
		"rules: [{name: a, key: everybody, limit: 1/s}]",
	} {
		if name, _, _ := strings.Cut(field, ":"); !slices.Contains(fields, name) {
			b.WriteString(field + "\n")
		}
	}
	return b.String()
}

// TestPoliciesLoad loads every block of YAML in the guides, and every field in its text and
// tables that has a value.
func TestPoliciesLoad(t *testing.T) {
	load := func(path string, line int, text string) {
		if err := policy.Check("policy", []byte(asPolicy(t, text))); err != nil {
			t.Errorf("%s:%d: %v\n%s", path, line, err, asPolicy(t, text))
		}
	}
	blocks, prose := split(t, policyGuide)
	ofAgents, _ := split(t, agentsGuide)
	files, fields := 0, 0
	for _, b := range append(blocks, ofAgents...) {
		if b.info == "yaml" && quoted(b) == "" {
			files++
			load(b.path, b.line, b.text)
		}
	}
	defs := definitions(t)
	for i, line := range prose {
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			name, value, ok := strings.Cut(m[1], ": ")
			if ok && value != "0" && (defs["policy"].Properties[name] != nil || defs["rule"].Properties[name] != nil) {
				fields++
				load(policyGuide, i+1, m[1])
			}
		}
	}
	if files < 10 || fields < 40 {
		t.Errorf("found %d files and %d fields", files, fields)
	}
}

// quoted returns the path of the file that a block quotes, if its first line says so.
func quoted(b block) string {
	first, _, _ := strings.Cut(b.text, "\n")
	path, _ := strings.CutPrefix(first, "# from ")
	if path == first {
		return ""
	}
	return path
}

// TestPartsOfFilesAreInThem compares the parts of policy files in the guide with the files of the
// systems, which load.
func TestPartsOfFilesAreInThem(t *testing.T) {
	blocks, _ := split(t, policyGuide)
	found := make(map[string]bool)
	for _, b := range blocks {
		path := quoted(b)
		if path == "" {
			continue
		}
		found[path] = true
		file := strings.Join(lines(t, path), "\n") + "\n"
		if _, part, _ := strings.Cut(b.text, "\n"); !strings.Contains("\n"+file, "\n"+strings.TrimRight(part, "\n")+"\n") {
			t.Errorf("%s:%d: %s has not these lines", b.path, b.line, path)
		}
		if err := policy.Check(path, []byte(file)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "examples/systems/*/weir.yaml"))
	if err != nil || len(files) < 2 || len(found) != len(files) {
		t.Errorf("the guide quotes %v, want each of %v (%v)", found, files, err)
	}
}
