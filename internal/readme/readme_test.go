// Package readme tests that what README.md shows compiles.
package readme

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imports are the packages that a snippet without an import declaration uses by
// their names.
var imports = map[string]string{
	"atomic":       "sync/atomic",
	"bytes":        "bytes",
	"context":      "context",
	"errors":       "errors",
	"expvar":       "expvar",
	"flag":         "flag",
	"fmt":          "fmt",
	"http":         "net/http",
	"io":           "io",
	"log":          "log",
	"strconv":      "strconv",
	"strings":      "strings",
	"time":         "time",
	"core":         module + "/core",
	"headers":      module + "/headers",
	"keyfuncs":     module + "/keyfuncs",
	"nethttp":      module + "/nethttp",
	"redisbackend": module + "/redisbackend",
	"breaker":      module + "/breaker",
	"chimw":        module + "/chimw",
	"ginmw":        module + "/ginmw",
	"echomw":       module + "/echomw",
	"echo5mw":      module + "/echo5mw",
	"redis":        "github.com/redis/go-redis/v9",
	"chi":          "github.com/go-chi/chi/v5",
	"gin":          "github.com/gin-gonic/gin",
	"echo":         "github.com/labstack/echo/v4",
}

const module = "github.com/weir-go/weir"

var (
	block   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	clause  = regexp.MustCompile(`(?m)^package (\w+)$`)
	comment = regexp.MustCompile(`(?m)//.*$`)
	literal = regexp.MustCompile("\"[^\"\n]*\"|`[^`]*`")
	dotted  = regexp.MustCompile(`(?:^|[^.\w])([a-z]\w*)\.`)
)

// source makes a file of a snippet, and names its package.
func source(snippet string) (file, name string) {
	if m := clause.FindStringSubmatch(snippet); m != nil {
		return snippet, m[1]
	}
	var paths []string
	for _, m := range dotted.FindAllStringSubmatch(literal.ReplaceAllString(comment.ReplaceAllString(snippet, ""), `""`), -1) {
		path, known := imports[m[1]]
		if known && m[1] == "echo" && strings.Contains(snippet, "echo5mw.") {
			path = "github.com/labstack/echo/v5"
		}
		if known && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, "package snippet")
	for _, path := range paths {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	return b.String() + snippet, "snippet"
}

// TestSnippetsCompile compiles every snippet as a package of its own. Those that
// follow each other with one package clause are one package.
func TestSnippetsCompile(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	replace := make(map[string]string) // for -overlay: these files exist for the compiler alone
	var packages []string
	last := ""
	for i, m := range block.FindAllStringSubmatch(string(text), -1) {
		file, name := source(m[1])
		if name == "snippet" || name != last {
			packages = append(packages, fmt.Sprintf("./snippet%02d", i))
		}
		last = name
		base := fmt.Sprintf("s%02d.go", i)
		if strings.Contains(file, `"testing"`) {
			base = fmt.Sprintf("s%02d_test.go", i)
		}
		real := filepath.Join(scratch, base)
		if err := os.WriteFile(real, []byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, packages[len(packages)-1], base)] = real
	}
	if len(packages) < 10 {
		t.Fatalf("found %d packages of snippets", len(packages))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"build", "-overlay", overlayFile},
		{"test", "-overlay", overlayFile, "-vet=off", "-c", "-o", filepath.Join(scratch, "bin") + "/"},
	} {
		if out, err := exec.Command("go", append(command, packages...)...).CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", command[0], err, out)
		}
	}
}
