//go:build ignore

// Writes the database that govulncheck -db reads (https://go.dev/doc/security/vuln/database) from
// the reports in OSV format of the module golang.org/x/vulndb: go run .ci/vulndb.go reports database
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"time"
)

type report struct {
	ID       string
	Modified time.Time
	Affected []struct{ Package struct{ Name string } }
}

type vulnerability struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
}

type module struct {
	Path  string          `json:"path"`
	Vulns []vulnerability `json:"vulns"`
}

func main() {
	log.SetFlags(0)
	from, to := os.Args[1], os.Args[2]
	paths, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err != nil || len(paths) < 1000 {
		log.Fatalf("%s has %d reports, want thousands (%v)", from, len(paths), err)
	}
	modules := make(map[string]*module)
	var all []vulnerability
	for _, path := range paths {
		text := must(os.ReadFile(path))
		var r report
		check(json.Unmarshal(text, &r))
		v := vulnerability{r.ID, r.Modified}
		all = append(all, v)
		for _, a := range r.Affected {
			m := modules[a.Package.Name]
			if m == nil {
				m = &module{Path: a.Package.Name}
				modules[a.Package.Name] = m
			}
			if n := len(m.Vulns); n == 0 || m.Vulns[n-1].ID != r.ID {
				m.Vulns = append(m.Vulns, v)
			}
		}
		write(filepath.Join(to, "ID", r.ID+".json"), text)
	}
	var list []*module
	for _, m := range modules {
		list = append(list, m)
	}
	write(filepath.Join(to, "index", "modules.json"), must(json.Marshal(list)))
	write(filepath.Join(to, "index", "vulns.json"), must(json.Marshal(all)))
	write(filepath.Join(to, "index", "db.json"), []byte(`{"modified":"`+time.Now().UTC().Format(time.RFC3339)+`"}`))
}

func write(path string, text []byte) {
	check(os.MkdirAll(filepath.Dir(path), 0o777))
	check(os.WriteFile(path, text, 0o666))
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
