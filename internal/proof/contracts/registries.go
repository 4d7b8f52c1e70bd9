package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// registries serve releases of packages.
type registries struct {
	goLimit string // a Go module that asks for a later Go release is no candidate
	command func(name string, args ...string) (*exec.Cmd, context.CancelFunc)
}

// finding is what registries serve for a row.
type finding struct {
	row    row
	served string // the newest release that the row could have
	note   string // "": the row has it
	behind bool
}

// compare looks up each row. A registry that does not answer for some is an error; the others are
// compared all the same.
func compare(s registries, rows []row) ([]finding, error) {
	served, err := s.served(rows)
	found := make([]finding, len(rows))
	for i, r := range rows {
		found[i] = judge(r, served[i])
	}
	return found, err
}

// judge compares a row with what is served; "": the registry has not answered.
func judge(r row, served string) finding {
	f := finding{row: r, served: served}
	switch {
	case served == "":
		f.note = "the registry has not answered"
	case isNewer(r.version, served):
		f.note = "the registry lists nothing after " + served + "; a row never goes back"
	case !isNewer(served, r.version):
	case r.failing != "" && !isNewer(served, r.failsWith):
		f.note = served + " is served, and " + r.failing + " fails with it"
	default:
		f.note, f.behind = served+" is served", true
	}
	return f
}

// served returns the newest release for each row: the lowest if a row has several packages, since
// they are released one after the other.
func (s registries) served(rows []row) ([]string, error) {
	newest := make([]string, len(rows))
	modules, err := s.modules(rows)
	errs := []error{err}
	for i, r := range rows {
		answers := true
		for _, name := range r.packages {
			versions, err := modules[name], error(nil)
			switch r.kind {
			case "go":
				if versions == nil { // errs says why
					answers = false
					continue
				}
			case "npm":
				versions, err = s.npm(name, r.below != "")
			case "pypi":
				versions, err = s.pypi(name)
			}
			if err == nil {
				var version string
				if version, err = s.newest(r, name, versions); err == nil &&
					(newest[i] == "" || isNewer(newest[i], version)) {
					newest[i] = version
				}
			}
			if err != nil {
				answers, errs = false, append(errs, fmt.Errorf("%s: %w", r.name, err))
			}
		}
		if !answers {
			newest[i] = ""
		}
	}
	return newest, errors.Join(errs...)
}

// newest returns the newest of some versions that a row may have.
func (s registries) newest(r row, name string, versions []string) (string, error) {
	versions = slices.DeleteFunc(slices.Clone(versions), func(v string) bool {
		return !release.MatchString(v) || r.below != "" && !isNewer(r.below, v)
	})
	slices.SortFunc(versions, func(a, b string) int {
		switch {
		case isNewer(a, b):
			return -1
		case isNewer(b, a):
			return 1
		}
		return 0
	})
	for _, v := range versions {
		plain := strings.TrimPrefix(v, "v")
		fits, err := true, error(nil)
		switch {
		case !isNewer(plain, r.version) || name == "go":
		case r.kind == "go":
			fits, err = s.allowsGo(name + "@" + v)
		case r.kind == "pypi":
			fits, err = s.hasWheel(name + "==" + v)
		}
		if err != nil || fits {
			return plain, err
		}
	}
	return "", fmt.Errorf("the registry of %s lists no release of %s that this row could have",
		r.kind, name)
}

// module is what go list -m says of a module.
type module struct {
	Path, Version, GoMod string
	Versions             []string
	Error                *struct{ Err string }
}

// modules returns the versions of all Go modules of rows.
func (s registries) modules(rows []row) (map[string][]string, error) {
	var queries []string
	for _, r := range rows {
		if r.kind == "go" {
			for _, path := range r.packages {
				queries = append(queries, path+"@latest")
			}
		}
	}
	found, err := s.list(queries...)
	versions := make(map[string][]string)
	for _, m := range found {
		if m.Error == nil {
			versions[m.Path] = append(m.Versions, m.Version)
		}
	}
	return versions, err
}

// list asks the module proxy for queries such as path@latest. It returns what is answered beside an
// error.
func (s registries) list(queries ...string) (found []module, err error) {
	if len(queries) == 0 {
		return nil, nil
	}
	args := append([]string{"list", "-m", "-e", "-versions", "-json"}, queries...)
	out, err := s.output("go", args...)
	if err != nil {
		return nil, err
	}
	var errs []error
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m module
		if err := decoder.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list -m -json: %w", err)
		}
		if m.Error != nil {
			errs = append(errs, fmt.Errorf("the module proxy has no answer for %s: %s", m.Path, m.Error.Err))
		}
		found = append(found, m)
	}
	if len(found) != len(queries) {
		errs = append(errs, fmt.Errorf("go list -m answers %d of %d queries", len(found), len(queries)))
	}
	return found, errors.Join(errs...)
}

// allowsGo reports whether a release of a Go module allows the Go version of go.mod.
func (s registries) allowsGo(query string) (bool, error) {
	found, err := s.list(query)
	if err != nil {
		return false, err
	}
	asked, err := goOf(found[0].GoMod) // GoVersion is empty if go itself is older
	return err != nil || !isNewer(asked, s.goLimit), nil
}

// npm returns the release that npm installs by default or, for a row that stays before a version,
// all.
func (s registries) npm(name string, all bool) (versions []string, err error) {
	out, err := s.output("npm", "view", name, "versions", "dist-tags", "--json")
	if err != nil {
		return nil, err
	}
	var said struct {
		Versions json.RawMessage
		Tags     map[string]string `json:"dist-tags"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, fmt.Errorf("npm view %s: %w", name, err)
	}
	if !all {
		return []string{said.Tags["latest"]}, nil
	}
	if err := json.Unmarshal(said.Versions, &versions); err != nil { // npm prints one as a string
		versions = make([]string, 1)
		err = json.Unmarshal(said.Versions, &versions[0])
		return versions, err
	}
	return versions, nil
}

var (
	available = regexp.MustCompile(`(?m)^Available versions: (.*?)\r?$`)
	others    = regexp.MustCompile(`\(from versions: \d`) // pip says so of other releases
)

// systems are the systems for which pip looks for wheels: this one, and a newer one, of which
// .ci/install takes programs that it runs with their own libraries.
var systems = [][]string{nil, {"--python-version", "3.13", "--platform", "manylinux_2_39_x86_64"}}

// pip runs a command of pip for each system until one finds something.
func (s registries) pip(command []string, name string) ([]byte, error) {
	var errs []error
	for _, system := range systems {
		args := slices.Concat([]string{"-m", "pip"}, command, []string{"--disable-pip-version-check",
			"--only-binary", ":all:"}, system, []string{name})
		out, err := s.output("python3", args...)
		if err == nil {
			return out, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// pypi returns the releases of a package of Python.
func (s registries) pypi(name string) ([]string, error) {
	out, err := s.pip([]string{"index", "versions"}, name)
	if err != nil {
		return nil, err
	}
	line := available.FindSubmatch(out)
	if line == nil {
		return nil, fmt.Errorf("pip index versions %s lists none: %s", name, out)
	}
	return strings.Split(string(line[1]), ", "), nil
}

// hasWheel reports whether pip finds a wheel of a release: pip index versions lists releases of
// sources, too.
func (s registries) hasWheel(requirement string) (bool, error) {
	dir, err := os.MkdirTemp("", "contracts")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	_, err = s.pip([]string{"download", "-q", "--no-deps", "-d", dir}, requirement)
	if err != nil && others.MatchString(err.Error()) {
		return false, nil
	}
	return err == nil, err
}

// output runs a client and returns what it prints.
func (s registries) output(name string, args ...string) ([]byte, error) {
	cmd, cancel := s.command(name, args...)
	defer cancel()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not installed, so its registry cannot be asked: "+
			".ci/install %[1]s", name)
	}
	if e, is := errors.AsType[*exec.ExitError](err); is && e.ExitCode() < 0 {
		err = fmt.Errorf("ended, without an answer within %v: %w", patience, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the registry of %s does not answer: %s %s: %w: %s", name, name,
			strings.Join(args, " "), err, strings.TrimSpace(said.String()+" "+string(out)))
	}
	return out, nil
}

var majorSuffix = regexp.MustCompile(`/v(\d+)$`)

// nextMajor returns the path of the next major version of a Go module.
func nextMajor(path string) string {
	suffix := majorSuffix.FindStringSubmatch(path)
	if suffix == nil {
		return path + "/v2"
	}
	n, _ := strconv.Atoi(suffix[1])
	return fmt.Sprintf("%s/v%d", strings.TrimSuffix(path, suffix[0]), n+1)
}

// majors says which Go modules have a next major version that no row names.
func (s registries) majors(rows []row) (newer []string, err error) {
	named := make(map[string]bool)
	for _, r := range rows {
		for _, name := range r.packages {
			named[name] = true
		}
	}
	for _, r := range rows {
		for _, path := range r.packages {
			next := nextMajor(path)
			if r.kind != "go" || path == "go" || named[next] || strings.Contains(r.next, "`"+next+"`") {
				continue
			}
			out, err := s.output("go", "list", "-m", "-e", "-json", next+"@latest")
			if err != nil {
				return nil, err
			}
			var m module
			if err := json.Unmarshal(out, &m); err != nil {
				return nil, err
			}
			switch {
			case m.Error == nil:
				newer = append(newer, fmt.Sprintf("%s: %s@%s is served", r.name, next, m.Version))
			case !strings.Contains(m.Error.Err, "404") && !strings.Contains(m.Error.Err, "410"):
				return nil, fmt.Errorf("the module proxy has no answer for %s: %s", next, m.Error.Err)
			}
		}
	}
	return newer, nil
}

// findingTable is the table of all rows.
func findingTable(found []finding) string {
	var b strings.Builder
	b.WriteString("| name | version | served | |\n|---|---|---|---|\n")
	for _, f := range found {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.row.name, f.row.version, f.served, f.note)
	}
	return b.String()
}
