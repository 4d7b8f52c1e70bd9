//go:build unix

package readme

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// casesGuide is the guide to the command weir. Its blocks of YAML are files of cases for
// the policy of the examples.
const casesGuide = "docs/command.md"

// isOfCommand reports whether a block of the console shows what weir prints.
func isOfCommand(b block) bool { return strings.HasPrefix(b.text, "$ weir ") }

// installWeir builds the command, and returns what makes a script find it.
func installWeir(t *testing.T) string {
	dir := t.TempDir()
	bash(t, "export GOFLAGS=\ngo -C cmd/weir build -o '"+dir+"/weir' .\n")
	return "export PATH='" + dir + "':\"$PATH\"\n"
}

// TestTheCommandAnswersAsShown runs the commands of such blocks, which must print what
// follows, to the letter.
func TestTheCommandAnswersAsShown(t *testing.T) {
	testrun.FullOnly(t, "compiles another module")
	setUp := installWeir(t)
	n := 0
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		for _, b := range blocks {
			switch {
			case b.info == "console" && isOfCommand(b):
				for _, session := range strings.Split("\n"+b.text, "\n$ ")[1:] {
					n++
					command, want, _ := strings.Cut(session, "\n")
					if got := bash(t, setUp+command+" 2>&1 || true\n"); got != strings.TrimRight(want, "\n")+"\n" {
						t.Errorf("%s:%d: %s\ngot\n%s\nwant\n%s", path, b.line, command, got, want)
					}
				}
			case b.info == "yaml" && path == casesGuide:
				n++
				cases := filepath.Join(t.TempDir(), "cases.yaml")
				if err := os.WriteFile(cases, []byte(b.text), 0o666); err != nil {
					t.Fatal(err)
				}
				bash(t, setUp+"weir check --cases '"+cases+"' examples/policy/weir.yaml >&2\n")
			}
		}
	}
	if n < 3 {
		t.Errorf("found %d commands", n)
	}
}
