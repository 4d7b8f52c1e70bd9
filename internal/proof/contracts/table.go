package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// row is a row of the table of versions: packages of a registry that have one version.
type row struct {
	name     string
	kind     string   // "go", "npm" or "pypi"
	packages []string // a module, or several that are released together
	below    string   // the version before which the row stays; "": it follows all releases
	version  string   // without v
	date     string
	relies   string
	test     string
	next     string

	// A newer version that fails a test, and the test. Versions up to it do not make the row stale.
	failsWith, failing string
}

// heading is the first line of the table of versions.
const heading = "| name | registry | version | date | what weir relies on | test | the next one |"

var (
	registry = regexp.MustCompile("^`(go|npm|pypi)((?: [^ `<]+)+)(?: <([0-9.]+))?`$")
	release  = regexp.MustCompile(`^v?\d+(\.\d+)*(\.post\d+)?(\+incompatible)?$`)
	failure  = regexp.MustCompile("`(Test\\w+)` fails with (\\S*[^\\s.,;])")
)

// parse reads the table of versions.
func parse(text string) (rows []row, err error) {
	_, table, found := strings.Cut(text, heading+"\n|---|---|---|---|---|---|---|\n")
	if !found {
		return nil, fmt.Errorf("%s has no table that begins: %s", document, heading)
	}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		r, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", document, err, line)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("the table of versions in %s has no rows", document)
	}
	return rows, nil
}

func parseRow(line string) (r row, err error) {
	const escaped = "\x00" // in place of \|
	cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, escaped), "|"), "|")
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), escaped, "|")
	}
	if len(cells) != 7 {
		return row{}, fmt.Errorf("a row has 7 cells, not %d", len(cells))
	}
	where := registry.FindStringSubmatch(cells[1])
	if where == nil {
		return row{}, fmt.Errorf("registry: want `go`, `npm` or `pypi`, names of packages and, if "+
			"the row stays before a version, such as <2, that (got %s)", cells[1])
	}
	r = row{name: cells[0], kind: where[1], packages: strings.Fields(where[2]), below: where[3],
		version: cells[2], date: cells[3], relies: cells[4], test: cells[5], next: cells[6]}
	if !release.MatchString(r.version) || strings.HasPrefix(r.version, "v") {
		return row{}, fmt.Errorf("version: want a release without v, such as 1.2.3 (got %s)", r.version)
	}
	if _, err := time.Parse(time.DateOnly, r.date); err != nil {
		return row{}, fmt.Errorf("date: want a day such as 2026-01-31 (got %s)", r.date)
	}
	if r.below != "" && !isNewer(r.below, r.version) {
		return row{}, fmt.Errorf("version: want one before %s, the bound of the row (got %s)",
			r.below, r.version)
	}
	if r.name == "" || r.test == "" || r.next == "" {
		return row{}, fmt.Errorf("a row has a name, a test, and where the next version appears")
	}
	if f := failure.FindStringSubmatch(r.next); f != nil {
		r.failing, r.failsWith = f[1], f[2]
		if !release.MatchString(r.failsWith) {
			return row{}, fmt.Errorf("`%s` fails with: want a release, such as 1.2.3, without quotes "+
				"(got %s)", r.failing, r.failsWith)
		}
	}
	return r, nil
}

// isNewer reports whether version a follows b. Both are releases.
func isNewer(a, b string) bool {
	as, bs := numbers(a), numbers(b)
	for i := range max(len(as.release), len(bs.release)) {
		x, y := 0, 0
		if i < len(as.release) {
			x = as.release[i]
		}
		if i < len(bs.release) {
			y = bs.release[i]
		}
		if x != y {
			return x > y
		}
	}
	return as.post > bs.post
}

// numbered is a version by its numbers: 9.1.2.post3 is the third one after 9.1.2, and before 9.1.2.1.
type numbered struct {
	release []int
	post    int
}

func numbers(version string) (n numbered) {
	version = strings.TrimSuffix(strings.TrimPrefix(version, "v"), "+incompatible")
	version, post, _ := strings.Cut(version, ".post")
	n.post, _ = strconv.Atoi(post)
	for part := range strings.SplitSeq(version, ".") {
		x, _ := strconv.Atoi(part)
		n.release = append(n.release, x)
	}
	return n
}

// goOf returns the Go version that a go.mod asks for.
func goOf(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^go ([0-9.]+)$`).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s asks for no Go version", path)
	}
	return string(found[1]), nil
}
