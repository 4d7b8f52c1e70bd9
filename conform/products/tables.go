package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-go/weir/conform"
)

// writeGuide writes the tables into the guide.
func writeGuide(m *measurement) error {
	guide := filepath.Join("..", "..", "docs", "conformance.md")
	text, err := os.ReadFile(guide)
	if err != nil {
		return err
	}
	after, err := between(string(text), tables(m))
	if err != nil {
		return fmt.Errorf("%s: %w", guide, err)
	}
	return os.WriteFile(guide, []byte(after), 0o644)
}

// between puts content between the marks of the guide.
func between(text, content string) (string, error) {
	const begin, end = "<!-- products -->\n", "<!-- end of products -->\n"
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("lacks the line %q or %q", begin, end)
	}
	return before + begin + content + end + after, nil
}

// perTable is how many checks have a column in one table.
const perTable = 6

// tables returns the tables of the guide: what was measured, one column for each check, and what does
// not hold.
func tables(m *measurement) string {
	var b strings.Builder
	measured := slices.DeleteFunc(slices.Clone(m.Products), func(p *product) bool { return len(p.Results) == 0 })
	b.WriteString("The command of a row is `weir conform conform/products/FOLDER/profile.yaml`.\n\n" +
		"| product | folder | promises | key | measured on | in |\n|---|---|---|---|---|--:|\n")
	for _, p := range measured {
		fmt.Fprintf(&b, "| %s | [%s](../conform/products/%[2]s/profile.yaml) | %s | %s | %s | %v |\n",
			p.Name, p.Folder, cell(p.Limit), p.Key, p.Day, p.Took)
	}
	var names []string
	for _, c := range conform.Checks() {
		names = append(names, c.Name)
	}
	for columns := range slices.Chunk(names, perTable) {
		fmt.Fprintf(&b, "\n| product | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, p := range measured {
			fmt.Fprintf(&b, "| %s |", p.Name)
			for _, name := range columns {
				fmt.Fprintf(&b, " %s |", short(p.resultOf(name)))
			}
			b.WriteString("\n")
		}
	}
	for _, part := range []struct {
		heading string
		verdict conform.Verdict
	}{{"What does not hold", conform.Fails}, {"Bounds", conform.Bound}} {
		fmt.Fprintf(&b, "\n### %s\n\n| product | check | found |\n|---|---|---|\n", part.heading)
		for _, p := range measured {
			for _, r := range p.Results {
				if r.Verdict == part.verdict {
					fmt.Fprintf(&b, "| %s | %s | %s |\n", p.Name, r.Check, cell(r.Found))
				}
			}
		}
	}
	for _, p := range m.Products {
		if p.Missing != "" {
			fmt.Fprintf(&b, "\nNot measured: %s: %s.\n", p.Name, strings.TrimSuffix(cell(p.Missing), "."))
		}
	}
	return b.String()
}

// short returns a verdict in a word.
func short(r *result) string {
	if r == nil {
		return ""
	}
	switch r.Verdict {
	case conform.Holds:
		return "holds"
	case conform.Bound:
		return "bound"
	case conform.Fails:
		return "**no**"
	}
	return "–"
}

// cell returns a text as a table may have it.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`).Replace(strings.TrimSpace(text))
}
