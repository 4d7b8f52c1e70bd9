//go:build ignore

// Runs govulncheck on every module, tests included, and fails for each published hole that our code
// reaches, except for those listed: go run .ci/holes.go. Where vuln.go.dev cannot be reached, it
// takes the reports from the module golang.org/x/vulndb. Holes in the Go release that runs it are
// shown, and fail it with the flag -go alone: who builds a program chooses that.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const scanner = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"

// accepted says why a hole of a module may stay, as long as no release mends it. What is no longer
// reported has to go.
var accepted = map[key]string{
	{"GO-2026-6872", "github.com/labstack/echo/v4"}: "of all its releases: its RealIP believes X-Forwarded-For, as docs/frameworks.md warns; no rule of ours uses it unless asked to",
	{"GO-2026-6875", "github.com/labstack/echo/v4"}: "of all its releases: its Proxy middleware, which we do not use",
}

func main() {
	log.SetFlags(0)
	failForGo := flag.Bool("go", false, "fail for holes in the Go release, too")
	flag.Parse()
	work := must(os.MkdirTemp("", "holes"))
	bad := reached(work, *failForGo)
	check(os.RemoveAll(work))
	if bad {
		os.Exit(1)
	}
}

// reached prints the holes that our code reaches, and reports whether one fails the check.
func reached(work string, failForGo bool) (bad bool) {
	run("", "env", "GOBIN="+work, "go", "install", scanner)
	args := []string{"-test", "-format", "json"}
	if where, err := database(work); err != nil {
		log.Fatalf("NOT CHECKED: there is no database of holes: %v", err)
	} else if where != "" {
		args = append(args, "-db", "file://"+where)
	}
	seen, ofGo := make(map[key]bool), make(map[string]bool)
	for _, path := range strings.Fields(string(run("", "git", "ls-files", "go.mod", "*/go.mod"))) {
		dir := filepath.Dir(path)
		holes := scan(dir, filepath.Join(work, "govulncheck"), args)
		for _, k := range slices.SortedFunc(maps.Keys(holes), func(a, b key) int { return strings.Compare(a.id+a.module, b.id+b.module) }) {
			seen[k] = true
			h := holes[k]
			switch {
			case k.module == "stdlib":
				ofGo[k.id] = true
			case accepted[k] != "" && h.fixed == "":
				fmt.Printf("%s: %s in %s %s is accepted: %s\n", dir, k.id, k.module, h.version, accepted[k])
			default:
				bad = true
				fmt.Printf("%s: %s in %s %s, fixed in %s: https://pkg.go.dev/vuln/%[2]s\n", dir, k.id, k.module, h.version, cmp.Or(h.fixed, "no release"))
			}
		}
	}
	if len(ofGo) > 0 {
		bad = bad || failForGo
		fmt.Printf("This Go release has holes: build programs with a newer one. %v\n", slices.Sorted(maps.Keys(ofGo)))
	}
	for k := range accepted {
		if !seen[k] {
			bad = true
			fmt.Printf("%s in %s is reported no more: delete it from .ci/holes.go\n", k.id, k.module)
		}
	}
	return bad
}

// key names a hole: one report may be about several modules.
type key struct{ id, module string }

type hole struct{ version, fixed string }

// scan returns the holes that a module reaches.
func scan(dir, govulncheck string, args []string) map[key]hole {
	out := json.NewDecoder(bytes.NewReader(run(dir, govulncheck, append(args, "./...")...)))
	all := make(map[key]hole)
	for {
		var message struct {
			Finding *struct {
				OSV   string
				Fixed string `json:"fixed_version"`
				Trace []struct{ Module, Version, Function string }
			}
		}
		if err := out.Decode(&message); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			log.Fatalf("%s: what govulncheck says: %v", dir, err)
		}
		if f := message.Finding; f != nil && f.Trace[0].Function != "" { // otherwise it is only required or imported
			at := f.Trace[0]
			all[key{f.OSV, at.Module}] = hole{at.Version, f.Fixed}
		}
	}
}

// database returns "" if vuln.go.dev can be reached, and otherwise where in work a database is that
// it has made (https://go.dev/doc/security/vuln/database).
func database(work string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	if answer, err := client.Get("https://vuln.go.dev/index/db.json"); err == nil {
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return "", nil
		}
	}
	out, err := exec.Command("go", "mod", "download", "-json", "golang.org/x/vulndb@latest").Output()
	if err != nil {
		return "", fmt.Errorf("neither vuln.go.dev nor the module golang.org/x/vulndb can be reached: %w", err)
	}
	var vulndb struct{ Dir, Version string }
	check(json.Unmarshal(out, &vulndb))
	fmt.Printf("the database is golang.org/x/vulndb %s, since vuln.go.dev cannot be reached\n", vulndb.Version)
	paths := must(filepath.Glob(filepath.Join(vulndb.Dir, "data", "osv", "*.json")))
	if len(paths) < 1000 {
		return "", fmt.Errorf("%s has %d reports, want thousands", vulndb.Dir, len(paths))
	}
	return filepath.Join(work, "db"), write(filepath.Join(work, "db"), paths)
}

type vulnerability struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
}

type module struct {
	Path  string          `json:"path"`
	Vulns []vulnerability `json:"vulns"`
}

// write writes a database of the reports at paths.
func write(to string, paths []string) error {
	byPath := make(map[string]*module)
	modules, all := []*module{}, []vulnerability{}
	files := make(map[string][]byte)
	for _, path := range paths {
		text := must(os.ReadFile(path))
		var report struct {
			vulnerability
			Affected []struct{ Package struct{ Name string } }
		}
		check(json.Unmarshal(text, &report))
		all = append(all, report.vulnerability)
		files["ID/"+report.ID] = text
		for _, a := range report.Affected {
			m := byPath[a.Package.Name]
			if m == nil {
				m = &module{Path: a.Package.Name}
				byPath[m.Path], modules = m, append(modules, m)
			}
			if n := len(m.Vulns); n == 0 || m.Vulns[n-1] != report.vulnerability {
				m.Vulns = append(m.Vulns, report.vulnerability)
			}
		}
	}
	files["index/modules"], files["index/vulns"] = must(json.Marshal(modules)), must(json.Marshal(all))
	files["index/db"] = must(json.Marshal(map[string]time.Time{"modified": time.Now().UTC()}))
	check(os.MkdirAll(filepath.Join(to, "ID"), 0o777))
	check(os.MkdirAll(filepath.Join(to, "index"), 0o777))
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(to, name+".json"), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// run returns what a command prints.
func run(dir, name string, args ...string) []byte {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		log.Fatalf("%s %v: %v", name, args, err)
	}
	return out
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
