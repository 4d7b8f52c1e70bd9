package readme

import (
	"regexp"
	"slices"
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
	if contracts := lines(t, "docs/contracts.md"); !slices.ContainsFunc(contracts, func(line string) bool {
		return strings.HasPrefix(line, "| Go:") && strings.Contains(line, "1."+strconv.Itoa(newest)+".")
	}) {
		t.Errorf("docs/contracts.md does not know Go 1.%d", newest)
	}
}
