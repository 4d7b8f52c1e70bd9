package readme

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var goRelease = regexp.MustCompile(`^(?:export GOTOOLCHAIN=go|go )1\.(\d+)\.\d+\b`)

// README.md promises the two newest Go releases. A requirement in go.mod would break the older one.
func TestTheScriptsRunUnderTwoGoReleases(t *testing.T) {
	minorOf := func(path string) int {
		for _, line := range lines(t, path) {
			if found := goRelease.FindStringSubmatch(line); found != nil {
				minor, _ := strconv.Atoi(found[1])
				return minor
			}
		}
		t.Fatalf("%s names no Go release", path)
		return 0
	}
	asked, older, newest := minorOf("go.mod"), minorOf(".ci/full"), minorOf(".ci/run")
	if older != asked || newest != older+1 {
		t.Errorf("go.mod asks for Go 1.%d, .ci/full has 1.%d and .ci/run 1.%d", asked, older, newest)
	}
	nightly := strings.Join(lines(t, ".github/workflows/full.yml"), "\n")
	if want := `go-version: "1.` + strconv.Itoa(older) + `.x"`; !strings.Contains(nightly, want) {
		t.Errorf("full.yml does not say %s", want)
	}
	contracts := strings.Join(lines(t, "docs/contracts.md"), "\n")
	for path, row := range map[string]string{
		".ci/run": "| Go, the newest | `go go` | ", ".ci/full": "| Go, the one before | `go go <",
	} {
		release, _, _ := strings.Cut(strings.Join(lines(t, path), "\n"), " # the")
		_, release, _ = strings.Cut(release, "GOTOOLCHAIN=go")
		if _, cells, _ := strings.Cut(contracts, row); !strings.Contains(
			strings.SplitN(cells, "\n", 2)[0], release+" |") {
			t.Errorf("%s runs under Go %s, and docs/contracts.md has another release", path, release)
		}
	}
}
