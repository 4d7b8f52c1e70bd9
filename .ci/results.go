// Results reads what go test -json prints. It prints a line for each package, and all that a
// failed test has printed. It fails if a package does not end, and if a test was skipped that
// .ci/skips does not list (.ci/skips-full in a full run), so that a machine which lacks a
// program does not look like one on which all is well.
//
//	go test -json ./... | go run .ci/results.go
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json: see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	list := ".ci/skips"
	if os.Getenv("WEIR_FULL") == "1" {
		list = ".ci/skips-full"
	}
	listed, err := skips(list)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	printed := make(map[string][]string) // by package and test
	running := make(map[string]bool)     // packages
	var skipped []string
	passed, failed, unlisted := 0, 0, false
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text()) // of the go command itself
			continue
		}
		if e.Action == "start" {
			running[e.Package] = true
		}
		if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			delete(running, e.Package)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(e.Package, "github.com/weir-go/weir"), "/") + " " + e.Test
		switch {
		case e.Action == "build-output":
			fmt.Print(e.Output)
		case e.Action == "output":
			printed[name] = append(printed[name], e.Output)
		case e.Action == "fail":
			failed++
			fmt.Print(strings.Join(printed[name], ""))
			delete(printed, name)
			if e.Test == "" { // a panic or a time-out ends tests that say no more
				for _, unended := range slices.Sorted(maps.Keys(printed)) {
					if strings.HasPrefix(unended, name) {
						fmt.Print(strings.Join(printed[unended], ""))
					}
				}
			}
		case e.Action == "pass" && e.Test == "":
			fmt.Printf("ok  \t%s\t%.1fs\n", e.Package, e.Elapsed)
		case e.Action == "pass":
			passed++
		case e.Action == "skip" && e.Test != "":
			if !slices.ContainsFunc(listed, func(r *regexp.Regexp) bool { return r.MatchString(name) }) {
				unlisted = true
				fmt.Printf("SKIPPED, and %s does not list it: %s\n%s", list, name, strings.Join(printed[name], ""))
			}
			skipped = append(skipped, name)
		}
		if e.Action == "pass" || e.Action == "skip" {
			delete(printed, name)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(running)) {
		failed++
		fmt.Printf("FAIL\t%s did not end\n", path)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, len(skipped))
	if lines.Err() != nil || failed > 0 || unlisted || passed == 0 {
		os.Exit(1)
	}
}

// skips reads a file of regular expressions, a line each: the package from the root of the
// module, a space, the test.
func skips(path string) (listed []*regexp.Regexp, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		r, err := regexp.Compile("^" + line + "$")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		listed = append(listed, r)
	}
	return listed, nil
}
