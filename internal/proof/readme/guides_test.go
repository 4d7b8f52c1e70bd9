// Package readme tests the README, the guides and the comments of examples: their code
// compiles, their commands run and print what is shown, their links lead somewhere.
package readme

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/weir-go/weir"
	root   = "../../.." // of the repository
)

// guides returns the paths of README.md and docs/*.md, relative to the root.
func guides(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		paths[i] = "docs/" + filepath.Base(path)
	}
	for _, name := range []string{"agents", "command", "frameworks", "headers", "keys", "memory", "migrating",
		"operations", "plans", "playground", "policy", "redis", "rules", "service", "systems", "testing", "words"} {
		if !slices.Contains(paths, "docs/"+name+".md") {
			t.Errorf("docs/%s.md is missing", name)
		}
	}
	return append([]string{"README.md"}, paths...)
}

// lines returns the lines of a file of the repository.
func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// block is what stands between two fences.
type block struct {
	path string
	line int    // of its first line, from 1
	info string // behind the opening fence: the language
	text string
}

// split returns the blocks of a document and its other lines, where those of blocks
// are empty.
func split(t *testing.T, path string) (blocks []block, prose []string) {
	t.Helper()
	prose = lines(t, path)
	var open *block
	for i, line := range prose {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case !fence && open == nil:
			continue
		case !fence:
			open.text += line + "\n"
		case open == nil:
			open = &block{path: path, line: i + 2, info: info}
		case info != "":
			t.Errorf("%s:%d: a block opens within another", path, i+1)
		default:
			blocks = append(blocks, *open)
			open = nil
		}
		prose[i] = ""
	}
	if open != nil {
		t.Errorf("%s:%d: the block does not close", path, open.line)
	}
	return blocks, prose
}

// A block of a language that no test knows would be checked by none.
func TestEveryBlockIsChecked(t *testing.T) {
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		for _, b := range blocks {
			switch b.info {
			case "go", "sh", "console", "json":
			case "yaml": // a policy
				if !slices.Contains([]string{policyGuide, agentsGuide, casesGuide, serviceGuide}, b.path) {
					t.Errorf("%s:%d: show policies in %s", b.path, b.line, policyGuide)
				}
			case "text": // fields, layouts: nothing to run
			case "go abridged": // declarations, in part
				if b.path != "docs/DESIGN.md" {
					t.Errorf("%s:%d: show code that compiles", b.path, b.line)
				}
			default:
				t.Errorf("%s:%d: %q is no language that is checked", b.path, b.line, b.info)
			}
		}
	}
}
