package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// shelf is a made-up registry of each kind: by package its versions, the default one first.
type shelf struct {
	modules map[string][]string // a version may have a Go release after a space, as v1.2.3 1.99
	npm     map[string][]string
	wheels  map[string][]string
	sources map[string][]string // releases of Python packages without a wheel
}

func (s shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	switch kind {
	case "go":
		s.serveModule(w, path)
	case "npm":
		versions := s.npm[path]
		if versions == nil {
			http.NotFound(w, r)
			return
		}
		all := make(map[string]any)
		for _, v := range versions {
			all[v] = map[string]any{"name": path, "version": v,
				"dist": map[string]string{"tarball": "http://127.0.0.1/" + v}}
		}
		json.NewEncoder(w).Encode(map[string]any{"name": path, "versions": all,
			"dist-tags": map[string]string{"latest": versions[0]}})
	case "pypi":
		name := strings.Trim(path, "/")
		if file, is := strings.CutPrefix(name, "files/"); is {
			s.serveWheel(w, file)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for _, v := range s.wheels[name] {
			fmt.Fprintf(w, "<a href='/pypi/files/%s-%s-py3-none-any.whl'>%[1]s-%[2]s-py3-none-any.whl</a>\n",
				name, v)
		}
		for _, v := range s.sources[name] {
			fmt.Fprintf(w, "<a href='/pypi/files/%s-%s.tar.gz'>%[1]s-%[2]s.tar.gz</a>\n", name, v)
		}
	}
}

// serveWheel serves a wheel without content.
func (s shelf) serveWheel(w http.ResponseWriter, file string) {
	parts := strings.Split(file, "-")
	info := parts[0] + "-" + parts[1] + ".dist-info/"
	archive := zip.NewWriter(w)
	for name, text := range map[string]string{
		"METADATA": "Metadata-Version: 2.1\nName: " + parts[0] + "\nVersion: " + parts[1] + "\n",
		"WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"RECORD":   "",
	} {
		f, _ := archive.Create(info + name)
		f.Write([]byte(text))
	}
	archive.Close()
}

// serveModule speaks the protocol of module proxies.
func (s shelf) serveModule(w http.ResponseWriter, path string) {
	module, request, _ := strings.Cut(path, "/@")
	versions := s.modules[module]
	if versions == nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if request == "v/list" {
		for _, v := range versions {
			fmt.Fprintln(w, strings.Fields(v)[0])
		}
		return
	}
	wanted := strings.TrimPrefix(request, "v/")
	for i, v := range versions {
		version, release, _ := strings.Cut(v, " ")
		mod := "module " + module + "\n\ngo " + max(release, "1.20") + "\n"
		switch wanted {
		case version + ".info":
			fmt.Fprintf(w, `{"Version":%q}`, version)
		case "latest":
			if i == 0 {
				fmt.Fprintf(w, `{"Version":%q}`, version)
			}
		case version + ".mod":
			fmt.Fprint(w, mod)
		case version + ".zip":
			archive := zip.NewWriter(w)
			for name, text := range map[string]string{"go.mod": mod,
				"it.go": "package it\n\nconst Version = \"" + version + "\"\n"} {
				f, _ := archive.Create(module + "@" + version + "/" + name)
				f.Write([]byte(text))
			}
			archive.Close()
		}
	}
}

// opened serves a shelf to the clients that the test starts.
func opened(t *testing.T, s shelf) (registries, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	cache := t.TempDir()
	for name, value := range map[string]string{
		"GOPROXY": server.URL + "/go", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "GOWORK": "off",
		"GOMODCACHE": cache, "GOFLAGS": "-modcacherw", "GOENV": "off", "GOPRIVATE": "", "GONOPROXY": "",
		"npm_config_registry": server.URL + "/npm/", "npm_config_cache": t.TempDir(),
		"npm_config_fetch_retries": "0", "npm_config_update_notifier": "false",
		"PIP_INDEX_URL": server.URL + "/pypi/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null",
		"PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1", "PIP_EXTRA_INDEX_URL": "",
		"http_proxy": "", "HTTP_PROXY": "",
	} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	return registries{goLimit: "1.26.0",
		command: func(name string, args ...string) (*exec.Cmd, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cmd := testrun.CommandContext(ctx, t, name, args...)
			cmd.Dir = dir
			return cmd, cancel
		}}, server
}

// made returns a row of the table.
func made(t *testing.T, registry, version, next string) row {
	t.Helper()
	r, err := parseRow("| it | `" + registry + "` | " + version + " | 2026-11-29 | all | `TestIt` | " +
		next + " |")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// clients are the programs that ask the registries.
var clients = map[string]string{"go": "go", "npm": "npm", "pypi": "python3"}

// verdict compares one row and returns what is said of it.
func verdict(t *testing.T, s registries, r row) (served, note string, behind bool) {
	t.Helper()
	found, err := compare(s, []row{r})
	if err != nil {
		t.Fatal(err)
	}
	return found[0].served, found[0].note, found[0].behind
}

// says fails the test unless a row is judged so.
func says(t *testing.T, s registries, r row, wantServed, wantNote string, wantBehind bool) {
	t.Helper()
	served, note, behind := verdict(t, s, r)
	if served != wantServed || note != wantNote || behind != wantBehind {
		t.Errorf("%s %s: served %q, note %q, behind %t, want %q, %q, %t", r.kind, r.version, served, note,
			behind, wantServed, wantNote, wantBehind)
	}
}

func TestARowBehindItsRegistryIsNamed(t *testing.T) {
	for kind, name := range map[string]string{"go": "example.com/it", "npm": "it", "pypi": "it"} {
		t.Run(kind, func(t *testing.T) {
			testrun.Program(t, clients[kind])
			s, _ := opened(t, shelf{
				modules: map[string][]string{"example.com/it": {"v1.10.0", "v1.9.0", "v1.11.0-rc.1"}},
				npm:     map[string][]string{"it": {"1.10.0", "1.9.0", "1.11.0-rc.1"}},
				wheels:  map[string][]string{"it": {"1.10.0", "1.9.0", "1.11.0rc1"}},
			})
			says(t, s, made(t, kind+" "+name, "1.9.0", "there"), "1.10.0", "1.10.0 is served", true)
			says(t, s, made(t, kind+" "+name, "1.10.0", "there"), "1.10.0", "", false)
		})
	}
}

// A proxy may have forgotten releases, or not have heard of them yet.
func TestARowNeverGoesBack(t *testing.T) {
	for kind, name := range map[string]string{"go": "example.com/it", "npm": "it"} {
		t.Run(kind, func(t *testing.T) {
			testrun.Program(t, clients[kind])
			s, _ := opened(t, shelf{
				modules: map[string][]string{"example.com/it": {"v3.1.0"}},
				npm:     map[string][]string{"it": {"3.1.0"}},
			})
			says(t, s, made(t, kind+" "+name, "3.5.0", "there"), "3.1.0",
				"the registry lists nothing after 3.1.0; a row never goes back", false)
		})
	}
}

// @latest of a proxy may be older than what its list has.
func TestTheListOfAProxyCountsAsItsLatestDoes(t *testing.T) {
	s, _ := opened(t, shelf{modules: map[string][]string{"example.com/it": {"v1.0.0", "v1.2.0"}}})
	says(t, s, made(t, "go example.com/it", "1.1.0", "there"), "1.2.0", "1.2.0 is served", true)
}

func TestAModuleThatAsksForALaterGoIsNoCandidate(t *testing.T) {
	s, _ := opened(t, shelf{modules: map[string][]string{
		"example.com/it": {"v1.2.0 1.27.0", "v1.1.0 1.26.0", "v1.0.0"}}})
	says(t, s, made(t, "go example.com/it", "1.0.0", "there"), "1.1.0", "1.1.0 is served", true)
	says(t, s, made(t, "go example.com/it", "1.1.0", "there"), "1.1.0", "", false)
}

// What a release has is in its wheels: one without any for the systems of tests cannot be had.
func TestAReleaseWithoutAWheelIsNoCandidate(t *testing.T) {
	testrun.Program(t, "python3")
	s, _ := opened(t, shelf{wheels: map[string][]string{"it": {"1.0", "1.1"}},
		sources: map[string][]string{"it": {"1.2"}}})
	says(t, s, made(t, "pypi it", "1.1", "there"), "1.1", "", false)
}

func TestABoundKeepsARowBeforeAVersion(t *testing.T) {
	for kind, name := range map[string]string{"go": "example.com/it", "npm": "it"} {
		t.Run(kind, func(t *testing.T) {
			testrun.Program(t, clients[kind])
			s, _ := opened(t, shelf{
				modules: map[string][]string{"example.com/it": {"v1.9.0", "v1.8.1", "v1.8.0"}},
				npm:     map[string][]string{"it": {"1.9.0", "1.8.1", "1.8.0"}},
			})
			says(t, s, made(t, kind+" "+name+" <1.9", "1.8.0", "there"), "1.8.1", "1.8.1 is served", true)
		})
	}
}

func TestPackagesOfOneVersionWaitForTheLastOfThem(t *testing.T) {
	s, _ := opened(t, shelf{modules: map[string][]string{
		"example.com/it": {"v1.2.0"}, "example.com/its": {"v1.1.0"}}})
	r := made(t, "go example.com/it example.com/its", "1.1.0", "there")
	says(t, s, r, "1.1.0", "", false)
}

func TestAReasonHoldsUpToTheVersionThatFails(t *testing.T) {
	s, _ := opened(t, shelf{modules: map[string][]string{"example.com/it": {"v1.2.0"}}})
	says(t, s, made(t, "go example.com/it", "1.0.0", "`TestThat` fails with 1.2.0."), "1.2.0",
		"1.2.0 is served, and TestThat fails with it", false)
	says(t, s, made(t, "go example.com/it", "1.0.0", "`TestThat` fails with 1.1.0"), "1.2.0",
		"1.2.0 is served", true)
}

func TestARegistryThatDoesNotAnswerIsAnError(t *testing.T) {
	for kind, name := range map[string]string{"go": "example.com/it", "npm": "it", "pypi": "it"} {
		for _, how := range []string{"lacks the package", "is down"} {
			t.Run(kind+" "+how, func(t *testing.T) {
				testrun.Program(t, clients[kind])
				s, server := opened(t, shelf{modules: map[string][]string{"example.com/other": {"v1.0.0"}}})
				if how == "is down" {
					server.Close()
				}
				_, err := compare(s, []row{made(t, kind+" "+name, "1.0.0", "there")})
				if err == nil || !strings.Contains(err.Error(), name) ||
					!strings.Contains(err.Error(), "answer") {
					t.Errorf("got error %v, want one that says that %s got no answer", err, name)
				}
			})
		}
	}
}

// A registry that lacks one package may have much that is newer of others.
func TestWhatIsAnsweredIsComparedBesideWhatIsNot(t *testing.T) {
	testrun.Program(t, "npm")
	s, _ := opened(t, shelf{modules: map[string][]string{"example.com/it": {"v1.1.0"}},
		npm: map[string][]string{"it": {"1.1.0"}}})
	found, err := compare(s, []row{made(t, "go example.com/none", "1.0.0", "there"),
		made(t, "go example.com/it", "1.0.0", "there"), made(t, "npm none", "1.0.0", "there"),
		made(t, "npm it", "1.0.0", "there")})
	if err == nil || !strings.Contains(err.Error(), "example.com/none") ||
		!strings.Contains(err.Error(), "npm view none") {
		t.Errorf("got error %v, want one that names what has no answer", err)
	}
	var behind []string
	for _, f := range found {
		if f.behind {
			behind = append(behind, f.row.kind)
		}
	}
	if !slices.Equal(behind, []string{"go", "npm"}) || len(found) != 4 {
		t.Errorf("%d rows, behind are %v", len(found), behind)
	}
}

func TestAClientThatWasEndedIsSaidToHaveHadNoAnswer(t *testing.T) {
	s := registries{command: func(string, ...string) (*exec.Cmd, context.CancelFunc) {
		return testrun.Command(t, "sh", "-c", "kill -9 $$"), func() {} // as client does in the end
	}}
	if _, err := s.output("npm", "view", "it"); err == nil ||
		!strings.Contains(err.Error(), "npm view it") || !strings.Contains(err.Error(), "within 5m0s") {
		t.Errorf("got error %v, want one that says how long the command was waited for", err)
	}
}

func TestAClientThatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := compare(registries{command: client}, []row{made(t, "npm it", "1.0.0", "there")})
	if err == nil || !strings.Contains(err.Error(), ".ci/install npm") {
		t.Errorf("got error %v, want one that says how to install npm", err)
	}
}

func TestANextMajorVersionIsFoundUnlessARowNamesIt(t *testing.T) {
	s, server := opened(t, shelf{modules: map[string][]string{
		"example.com/it/v2": {"v2.0.1"}, "example.com/its/v4": {"v4.1.0"},
		"example.com/known/v2": {"v2.0.0"}}})
	rows := []row{made(t, "go example.com/it", "1.0.0", "there"),
		made(t, "go example.com/its/v3", "3.0.0", "there"),
		made(t, "go example.com/known", "1.0.0", "`example.com/known/v2`"),
		made(t, "go example.com/none", "1.0.0", "there"), made(t, "npm it", "1.0.0", "there")}
	got, err := s.majors(rows)
	want := []string{"it: example.com/it/v2@v2.0.1 is served",
		"it: example.com/its/v4@v4.1.0 is served"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	server.Close()
	if got, err := s.majors(rows[3:]); err == nil {
		t.Errorf("without a proxy: got %q, want an error", got)
	}
}

func TestVersionsAreComparedByTheirNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.10.0", "1.9.0", true}, {"1.9.0", "1.10.0", false}, {"1.9.0", "1.9.0", false},
		{"v1.9.1", "1.9.0", true}, {"9.1.2.post2", "9.1.2", true}, {"9.1.2", "9.1.2.post2", false},
		{"9.1.2.post10", "9.1.2.post2", true}, {"6.2.912183", "6.2.14", true}, {"1.27", "1.26.8", true},
		{"v2.0.0+incompatible", "1.9", true}, {"1.27", "1.27.0", false},
		{"9.1.1", "9.1.post1", true}, {"9.1.post1", "9.1.1", false}, {"9.1.post1", "9.1.0", true},
	} {
		if got := isNewer(c.a, c.b); got != c.want {
			t.Errorf("isNewer(%s, %s): got %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

func TestTablesHaveALineForEachRowAndModule(t *testing.T) {
	r := made(t, "npm it", "1.0.0", "there")
	got := findingTable([]finding{{row: r, served: "1.1.0", note: "1.1.0 is served", behind: true}}) +
		resultTable([]result{{module: "a", raised: map[string]string{"x/b": "v2.0.0", "x/a": "v1.0.0"}},
			{module: "b", err: errors.New("it fails")}})
	for _, want := range []string{"| it | 1.0.0 | 1.1.0 | 1.1.0 is served |\n",
		"| a | x/a 1.0.0, x/b 2.0.0 | pass | 0 |\n", "| b |  | **fail** | 0 |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in:\n%s", want, got)
		}
	}
}

func TestAMistakeInTheTableIsNamed(t *testing.T) {
	good := []string{"it", "`npm it`", "1.0.0", "2026-11-29", "all", "`TestIt`", "there"}
	mistakes := map[int][]string{0: {""}, 1: {"npm it", "`debian it`", "`npm`", "`npm it <x`"},
		2: {"v1.0.0", "1.0.0-rc.1", "", "new"}, 3: {"", "29 November"}, 5: {""}, 6: {"", "a | b",
			"`TestIt` fails with `1.1.0`", "`TestIt` fails with the next one"}}
	mistakes[1] = append(mistakes[1], "`npm it <1`", "`npm it <0.9`") // it has 1.0.0
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
	if _, err := parseRow(line(good)); err != nil {
		t.Fatal(err)
	}
	for _, at := range slices.Sorted(maps.Keys(mistakes)) {
		for _, wrong := range mistakes[at] {
			cells := slices.Clone(good)
			cells[at] = wrong
			if r, err := parseRow(line(cells)); err == nil {
				t.Errorf("%q is taken for %+v", line(cells), r)
			}
		}
	}
	for _, text := range []string{"", heading + "\n|---|---|---|---|---|---|---|\n\nmore"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is taken for a table", text)
		}
	}
}
