package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// workspace is the modules of the repository.
type workspace struct {
	rows    []row
	command func(name string, args ...string) *exec.Cmd
}

// tested lists the packages of modules whose other packages use nothing of the table.
var tested = map[string][]string{
	".": {"./chimw", "./client/...", "./echomw", "./ginmw", "./headers", "./internal/files/...",
		"./limits/limitstest", "./plans", "./policy", "./redisbackend/...", "./remote", "./stats"},
}

// untested lists modules that prove nothing about weir: benchmarks compares it with its peers, and
// conform/products has programs of theirs.
var untested = []string{"benchmarks", "conform/products"}

// result is how the tests of a module went.
type result struct {
	module   string
	raised   map[string]string // what is newer than go.mod asks for, by path
	duration time.Duration
	err      error
}

// test tests modules, all if none is named, under the newest Go release of the table.
func (w workspace) test(only []string) (results []result, err error) {
	files, err := w.command("git", "ls-files", "*go.mod").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	release, err := w.goRelease()
	if err != nil {
		return nil, err
	}
	for file := range strings.Lines(string(files)) {
		module := filepath.Dir(strings.TrimSpace(file))
		if slices.Contains(untested, module) || len(only) > 0 && !slices.Contains(only, module) {
			continue
		}
		begun := time.Now()
		fmt.Printf("\n== %s, Go %s, with the versions of %s\n", module, release, document)
		r := result{module: module}
		packages := tested[module]
		if packages == nil {
			packages = []string{"./..."}
		}
		r.raised, r.err = w.run(module, release, [][]string{{"go", "vet", "./..."},
			append([]string{"go", "test", "-vet=off", "-timeout", "80m", "-count", "1"}, packages...)})
		if r.err != nil {
			fmt.Println(r.err)
		}
		r.duration = time.Since(begun)
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("the repository has no module named %s", strings.Join(only, " or "))
	}
	return results, nil
}

// with runs a command in a module.
func (w workspace) with(module string, args []string) error {
	_, err := w.run(module, "", [][]string{args})
	return err
}

// goRelease returns the newest Go release of the table.
func (w workspace) goRelease() (newest string, err error) {
	for _, r := range w.rows {
		if r.packages[0] == "go" && (newest == "" || isNewer(r.version, newest)) {
			newest = r.version
		}
	}
	if newest == "" {
		return "", fmt.Errorf("%s has no row `go go`", document)
	}
	return newest, nil
}

// goMod is what go mod edit -json prints.
type goMod struct {
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
}

func (w workspace) read(path string) (m goMod, err error) {
	out, err := w.command("go", "mod", "edit", "-json", path).Output()
	if err != nil {
		return goMod{}, fmt.Errorf("go mod edit -json %s: %w", path, err)
	}
	return m, json.Unmarshal(out, &m)
}

func (m goMod) versions() map[string]string {
	versions := make(map[string]string)
	for _, r := range m.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

// run runs commands in a module with a go.mod that requires the versions of the table, of what the
// module requires. release is the Go release; "": that of the environment.
func (w workspace) run(
	module, release string, commands [][]string,
) (raised map[string]string, err error) {
	dir, err := os.MkdirTemp("", "contracts")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(dir, "go.mod")
	before, err := w.read(file)
	if err != nil {
		return nil, err
	}
	raised = w.newer(before)
	edit := []string{"mod", "edit"}
	for _, path := range slices.Sorted(maps.Keys(raised)) {
		edit = append(edit, "-require="+path+"@"+raised[path])
	}
	environment := os.Environ()
	if release != "" {
		environment = append(environment, "GOTOOLCHAIN=go"+release)
	}
	execute := func(name string, args ...string) error {
		cmd := w.command(name, args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = module, environment, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %s %s: %w", module, name, strings.Join(args, " "), err)
		}
		return nil
	}
	if len(raised) > 0 {
		if err := execute("go", append(edit, file)...); err != nil {
			return nil, err
		}
	}
	if err := execute("go", "mod", "tidy", "-modfile="+file); err != nil {
		return nil, err
	}
	after, err := w.read(file)
	if err != nil {
		return nil, err
	}
	if err := agree(module, raised, before, after); err != nil {
		return nil, err
	}
	flags, err := w.command("go", "env", "GOFLAGS").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOFLAGS: %w", err)
	}
	// Tests that run the go command have it read this file, too.
	environment = append(environment, "GOFLAGS="+strings.TrimSpace(string(flags))+" -modfile="+file)
	for _, command := range commands {
		if err := execute(command[0], command[1:]...); err != nil {
			return raised, err
		}
	}
	return raised, nil
}

// newer returns the versions of the table that are newer than a go.mod asks for.
func (w workspace) newer(m goMod) map[string]string {
	required, newer := m.versions(), make(map[string]string)
	for _, r := range w.rows {
		for _, path := range r.packages {
			if asked, is := required[path]; is && r.kind == "go" && isNewer(r.version, asked) {
				newer[path] = "v" + r.version
			}
		}
	}
	return newer
}

// agree returns an error if go mod tidy has taken other versions than it was told, or a later Go.
func agree(module string, raised map[string]string, before, after goMod) error {
	if before.Go != after.Go {
		return fmt.Errorf("%s: with the versions of %s, go.mod asks for Go %s, not %s", module, document,
			after.Go, before.Go)
	}
	for path, version := range after.versions() {
		if want := raised[path]; want != "" && version != want {
			return fmt.Errorf("%s: another requirement moves %s to %s, and %s has %s", module, path,
				version, document, want)
		}
	}
	return nil
}

// resultTable is the table of the modules.
func resultTable(results []result) string {
	var b strings.Builder
	b.WriteString("| module | newer than go.mod asks for | tests | seconds |\n|---|---|---|--:|\n")
	for _, r := range results {
		var raised []string
		for _, path := range slices.Sorted(maps.Keys(r.raised)) {
			raised = append(raised, path+" "+strings.TrimPrefix(r.raised[path], "v"))
		}
		verdict := "pass"
		if r.err != nil {
			verdict = "**fail**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f |\n", r.module, strings.Join(raised, ", "), verdict,
			r.duration.Seconds())
	}
	return b.String()
}
