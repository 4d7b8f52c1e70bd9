//go:build ignore

// Runs govulncheck on every module, tests included, and fails for each published hole that our code
// reaches, except for those listed: go run .ci/holes.go. Where vuln.go.dev cannot be reached, it
// takes the reports from the module golang.org/x/vulndb. Holes in the Go release that runs it are
// shown, and fail it with the flag -go alone: who builds a program chooses that.
package main

import (
	"bytes"
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

// accepted says why a hole may stay. What is no longer reported has to go.
var accepted = map[string]string{
	"GO-2026-6872": "of all releases of echo 4: its RealIP believes X-Forwarded-For, as docs/frameworks.md warns; no rule of ours uses it unless asked to",
	"GO-2026-6875": "of all releases of echo 4: its Proxy middleware, which we do not use",
}

func main() {
	log.SetFlags(0)
	failForGo := flag.Bool("go", false, "fail for holes in the Go release, too")
	flag.Parse()
	work := must(os.MkdirTemp("", "holes"))
	defer os.RemoveAll(work)
	run("", "env", "GOBIN="+work, "go", "install", scanner)
	args := []string{"-test", "-format", "json"}
	if where, err := database(work); err != nil {
		log.Fatalf("NOT CHECKED: there is no database of holes: %v", err)
	} else if where != "" {
		args = append(args, "-db", "file://"+where)
	}
	bad, seen, ofGo := false, make(map[string]bool), make(map[string]bool)
	for _, path := range strings.Fields(string(run("", "git", "ls-files", "go.mod", "*/go.mod"))) {
		dir := filepath.Dir(path)
		holes := scan(dir, filepath.Join(work, "govulncheck"), args)
		for _, id := range slices.Sorted(maps.Keys(holes)) {
			seen[id] = true
			switch h := holes[id]; {
			case h.inGo:
				ofGo[id] = true
			case accepted[id] != "":
				fmt.Printf("%s: %s in %s is accepted: %s\n", dir, id, h.module, accepted[id])
			default:
				bad = true
				fmt.Printf("%s: %s in %s, fixed in %s: https://pkg.go.dev/vuln/%[2]s\n", dir, id, h.module, h.fixed)
			}
		}
	}
	if len(ofGo) > 0 {
		bad = bad || *failForGo
		fmt.Printf("This Go release has holes: build programs with a newer one. %v\n", slices.Sorted(maps.Keys(ofGo)))
	}
	for id := range accepted {
		if !seen[id] {
			bad = true
			fmt.Printf("%s is reported no more: delete it from .ci/holes.go\n", id)
		}
	}
	if bad {
		os.RemoveAll(work)
		os.Exit(1)
	}
}

type hole struct {
	module, fixed string
	inGo          bool
}

// scan returns what a module reaches, by the id of the hole.
func scan(dir, govulncheck string, args []string) map[string]hole {
	out := json.NewDecoder(bytes.NewReader(run(dir, govulncheck, append(args, "./...")...)))
	all := make(map[string]hole)
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
			all[f.OSV] = hole{at.Module + " " + at.Version, f.Fixed, at.Module == "stdlib"}
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
