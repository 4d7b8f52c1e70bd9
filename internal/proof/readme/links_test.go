package readme

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	document  = regexp.MustCompile(`\bdocs/\w+\.md\b`)
	cited     = regexp.MustCompile(`\bDESIGN ([0-9]+)(?: and ([0-9]+))?`)
	onGitHub  = `https://(?:github\.com/weir-go/weir/blob|raw\.githubusercontent\.com/weir-go/weir)/main/`
	ourFile   = regexp.MustCompile(onGitHub + `([\w./-]+)(?:#([\w-]+))?`)
	linkLabel = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// slug returns the name that GitHub gives a heading.
func slug(heading string) string {
	heading = linkLabel.ReplaceAllString(heading, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// headings returns the names of a document's headings.
func headings(t *testing.T, path string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	_, prose := split(t, path)
	for _, line := range prose {
		if _, heading, ok := strings.Cut(line, " "); ok && strings.HasPrefix(line, "#") {
			name := slug(heading)
			for i := 1; names[name]; i++ {
				name = fmt.Sprintf("%s-%d", slug(heading), i)
			}
			names[name] = true
		}
	}
	return names
}

// walk calls visit with the path, relative to the root, of every file with a suffix.
func walk(t *testing.T, visit func(name string), suffixes ...string) {
	t.Helper()
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// The programs of conform/products are installed where they are.
		if d.IsDir() && slices.Contains([]string{".git", "node_modules", "venv"}, d.Name()) {
			return filepath.SkipDir
		}
		for _, suffix := range suffixes {
			if !d.IsDir() && strings.HasSuffix(full, suffix) {
				name, err := filepath.Rel(root, full)
				if err != nil {
					return err
				}
				visit(filepath.ToSlash(name))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	n := 0
	walk(t, func(name string) {
		_, prose := split(t, name)
		for i, line := range prose {
			for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(line, ""), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				n++
				file, heading, hasHeading := strings.Cut(m[1], "#")
				target := path.Join(path.Dir(name), file)
				if file == "" {
					target = name
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d: %s: there is no such file", name, i+1, m[1])
				} else if hasHeading && !headings(t, target)[heading] {
					t.Errorf("%s:%d: %s: there is no such heading", name, i+1, m[1])
				}
			}
		}
	}, ".md")
	if n < 60 {
		t.Errorf("found %d links", n)
	}
}

// Forms and SECURITY-INSIGHTS.yml are read elsewhere, so their links name the place of a file on GitHub.
func TestLinksToOurFilesLeadSomewhere(t *testing.T) {
	n := 0
	walk(t, func(name string) {
		for i, line := range lines(t, name) {
			for _, m := range ourFile.FindAllStringSubmatch(line, -1) {
				n++
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
					t.Errorf("%s:%d: %s: there is no such file", name, i+1, m[0])
				} else if m[2] != "" && !headings(t, m[1])[m[2]] {
					t.Errorf("%s:%d: %s: there is no such heading", name, i+1, m[0])
				}
			}
		}
	}, ".md", ".yml", ".yaml")
	if n < 8 {
		t.Errorf("found %d links", n)
	}
}

// Comments and errors name documents, and sections of the design.
func TestWhatCodeRefersToIsThere(t *testing.T) {
	sections := make(map[string]bool)
	for _, line := range lines(t, "docs/DESIGN.md") {
		if number, _, ok := strings.Cut(strings.TrimPrefix(line, "## "), "."); ok && strings.HasPrefix(line, "## ") {
			sections[number] = true
		}
	}
	documents, citations := 0, 0
	walk(t, func(name string) {
		for i, line := range lines(t, name) {
			for _, document := range document.FindAllString(line, -1) {
				documents++
				if _, err := os.Stat(filepath.Join(root, document)); err != nil &&
					!strings.HasPrefix(name, "internal/proof/readme/") {
					t.Errorf("%s:%d: there is no %s", name, i+1, document)
				}
			}
			for _, m := range cited.FindAllStringSubmatch(line, -1) {
				for _, number := range m[1:] {
					if citations++; number != "" && !sections[number] {
						t.Errorf("%s:%d: DESIGN has no section %s", name, i+1, number)
					}
				}
			}
		}
	}, ".go", ".lua", ".sh", ".md")
	if documents < 5 || citations < 80 {
		t.Errorf("found %d documents and %d citations", documents, citations)
	}
}
