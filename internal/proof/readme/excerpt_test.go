package readme

import (
	"strings"
	"testing"
)

// isExcerpt reports whether a block needs a module of its own, which this one does not
// require. Such a block is an excerpt of code of that module.
func isExcerpt(b block) bool {
	return b.info == "go" && (strings.Contains(b.text, "weirprom.") || strings.Contains(b.text, "weirotel.") ||
		strings.Contains(b.text, "go-github") || strings.Contains(b.text, "ghinstallation."))
}

// TestExcerptsAreInCode finds the lines of such blocks in code that is compiled with its
// module.
func TestExcerptsAreInCode(t *testing.T) {
	var code []string
	walk(t, func(name string) {
		if strings.HasPrefix(name, "examples/operations/") || strings.HasPrefix(name, "stats/weir") ||
			strings.HasPrefix(name, "internal/proof/gogithub/") {
			code = append(code, unindented(lines(t, name)))
		}
	}, ".go")
	found := 0
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		for _, b := range blocks {
			if !isExcerpt(b) {
				continue
			}
			found++
			text := unindented(strings.Split(b.text, "\n"))
			if !strings.Contains(strings.Join(code, "\n"), text) {
				t.Errorf("%s:%d: no file has these lines", path, b.line)
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d excerpts", found)
	}
}

const (
	serviceGuide   = "docs/service.md"
	serviceExample = "examples/operations/reload"
)

// The page shows a whole program and its file, which runs: TestProgramsAnswerAsTheirCommentsShow has its session.
func TestTheServiceIsItsExample(t *testing.T) {
	blocks, _ := split(t, serviceGuide)
	shown := make(map[string]string)
	for _, b := range blocks {
		shown[b.info] += b.text
	}
	_, program, _ := strings.Cut(strings.Join(lines(t, serviceExample+"/main.go"), "\n")+"\n", "\npackage main\n")
	for info, want := range map[string]string{
		"yaml": strings.Join(lines(t, serviceExample+"/weir.yaml"), "\n") + "\n",
		"go":   "package main\n" + program,
	} {
		if shown[info] != want {
			t.Errorf("the blocks of %s in %s are not those of %s", info, serviceGuide, serviceExample)
		}
	}
	if n := strings.Count(program, "\n") - strings.Count(program, "\n\n"); n > 80 {
		t.Errorf("the program has %d lines, want some seventy", n)
	}
}

func unindented(lines []string) string {
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
