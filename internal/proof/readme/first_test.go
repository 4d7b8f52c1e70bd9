package readme

import (
	"regexp"
	"strings"
	"testing"
)

// A newcomer reads one page and one program before anything else.
func TestTheFirstPageIsShort(t *testing.T) {
	page := lines(t, "README.md")
	if words := len(strings.Fields(strings.Join(page, "\n"))); words > 1200 || len(page) > 150 {
		t.Errorf("README.md has %d words and %d lines, want at most 1200 and 150", words, len(page))
	}
	blocks, _ := split(t, "README.md")
	program := blocks[0].text
	counted := 0
	for line := range strings.Lines(program) {
		if strings.TrimSpace(line) != "" {
			counted++
		}
	}
	if !strings.Contains(program, "func main()") || counted > 18 {
		t.Errorf("the first program has %d lines, want at most 18:\n%s", counted, program)
	}
}

// The answers that the page shows are those of the quickstart.
func TestTheQuickstartHasTheLimiterOfTheFirstPage(t *testing.T) {
	made := regexp.MustCompile(`nethttp\.MustPerAddress\(.*\)`)
	quickstart := made.FindString(strings.Join(lines(t, "examples/quickstart/main.go"), "\n"))
	if blocks, _ := split(t, "README.md"); quickstart == "" || made.FindString(blocks[0].text) != quickstart {
		t.Errorf("README.md has another limiter than %q", quickstart)
	}
}
