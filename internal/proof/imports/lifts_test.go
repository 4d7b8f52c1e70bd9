package imports

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// floors lists the requirements that may raise a module of a program, and why. Adding one makes
// other people's programs move. What a floor requires itself needs no line.
var floors = map[string]string{
	"go": "fixes holes: releases before 1.26 get no fixes",

	"golang.org/x/net": "fixes holes: GO-2026-6617 and four more in http2, which echo and gin serve with",
	"github.com/labstack/echo/v4": "fixes holes: GO-2026-6881, CVE-2026-118653 and eight more, and " +
		"GO-2025-3553 of golang-jwt, which it has no more",
	"google.golang.org/protobuf":             "fixes a hole: GO-2024-2611 in protojson",
	"github.com/modelcontextprotocol/go-sdk": "fixes a hole: before 1.7 a body of any size is read into memory",
	"github.com/andybalholm/brotli":          "fixes a hole: GO-2026-6888, which fasthttp reaches",
	"github.com/klauspost/compress":          "fixes a hole: GO-2026-6865, which fasthttp reaches",

	"github.com/redis/go-redis/v9": "before 9.19 a unit is given back twice, so a limit admits too many; " +
		"before 9.20 Close hangs while a server is silent",
	"github.com/alicebob/miniredis/v2": "a server in a bubble of testing/synctest, for tests and examples: " +
		"moves in programs that test with it",
}

// program is one that has the oldest supported releases of a framework and imports ours.
type program struct {
	framework string   // a package
	ours      []string // packages
	module    string   // of ours, below the main one; "": that
}

var programs = []program{
	{"github.com/gin-gonic/gin",
		[]string{"limits", "limits/backends", "limits/limitstest", "memory", "core", "headers", "keyfuncs", "nethttp", "shed",
			"client", "stats", "admin", "tokens", "ginmw"}, ""},
	{"github.com/go-chi/chi/v5", []string{"chimw"}, ""},
	{"github.com/labstack/echo/v4", []string{"echomw"}, ""},
	{"github.com/labstack/echo/v5", []string{"echo5mw"}, "echo5mw"},
	{"github.com/gofiber/fiber/v3", []string{"fibermw"}, "fibermw"},
	{"google.golang.org/grpc", []string{"grpcmw"}, "grpcmw"},
	{"connectrpc.com/connect", []string{"connectmw"}, "connectmw"},
	{"connectrpc.com/connect/v2/connecthttp", []string{"connect2mw"}, "connect2mw"},
	{"github.com/modelcontextprotocol/go-sdk/mcp", []string{"mcpmw"}, "mcpmw"},
	{"github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3",
		[]string{"gateway", "gateway/descriptors", "gateway/envoy"}, "gateway"},
	{"github.com/redis/go-redis/v9", []string{"redisbackend", "remote"}, ""},
	{"go.yaml.in/yaml/v4", []string{"policy"}, ""},
	{"github.com/hashicorp/golang-lru/v2/simplelru", []string{"plans"}, ""},
	{"github.com/prometheus/client_golang/prometheus", []string{"stats/weirprom"}, "stats/weirprom"},
	{"go.opentelemetry.io/otel/sdk/metric", []string{"stats/weirotel"}, "stats/weirotel"},
}

func TestImportingLiftsNothingThatIsNotListed(t *testing.T) {
	testrun.FullOnly(t, "asks the module proxy")
	testrun.DependsOnSource(t, "../../..")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	imported := make(map[string]bool)
	for _, p := range programs {
		for _, ours := range p.ours {
			imported[ours] = true
		}
	}
	for path := range mayImport {
		if path != "" && isPartOfTheLibrary(path) && !strings.Contains(path, "/internal/") && !imported[path] {
			t.Errorf("no program imports %s", path)
		}
	}
	for _, p := range programs {
		t.Run(p.framework, func(t *testing.T) {
			dir := t.TempDir()
			own := requirements(t, filepath.Join(root, p.module, "go.mod"))
			framework := ""
			for path, version := range own {
				if p.framework == path || strings.HasPrefix(p.framework, path+"/") {
					framework = path + " " + version
				}
			}
			if framework == "" {
				t.Fatalf("our go.mod does not require %s", p.framework)
			}
			gomod := "module example.com/program\n\ngo 1.26.0\n\nrequire " + framework + "\n"
			before := tidied(t, dir, gomod, p.framework)

			text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			gomod = string(text)
			imported := []string{p.framework}
			for _, ours := range p.ours {
				imported = append(imported, module+"/"+ours)
			}
			for _, ours := range []string{"", p.module} {
				path := strings.TrimSuffix(module+"/"+ours, "/")
				gomod += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", path, filepath.Join(root, ours))
				if p.module == "" {
					break
				}
			}
			after := tidied(t, dir, gomod, imported...)
			if build, err := command(t, dir, "build", "-o", os.DevNull, ".").CombinedOutput(); err != nil {
				t.Errorf("go build: %v\n%s", err, build)
			}
			ours := graphOf(t, root)
			maps.Copy(ours, graphOf(t, filepath.Join(root, p.module)))
			for path, version := range before {
				now, there := after[path]
				if there && now != version && ours.why(path, now) == "" {
					t.Errorf("%s moves from %s to %s, and floors does not say why", path, version, now)
				}
			}
		})
	}
}

// README.md tells it.
func TestANewProgramLiftsFourLinesIntoItsGoSum(t *testing.T) {
	testrun.FullOnly(t, "asks the module proxy")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gomod := "module example.com/program\n\ngo 1.26.0\n\n" +
		fmt.Sprintf("require %s v0.0.0\n\nreplace %[1]s => %s\n", module, root)
	tidied(t, dir, gomod, module+"/keyfuncs", module+"/limits", module+"/nethttp")
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(sums), "\n"); n != 4 {
		t.Errorf("%d lines, want 4\n%s", n, sums)
	}
}

func TestEachFloorIsARequirementOfOurs(t *testing.T) {
	ours := make(map[string]string)
	for _, p := range programs {
		maps.Copy(ours, requirements(t, filepath.Join("../../..", p.module, "go.mod")))
	}
	for path := range floors {
		if ours[path] == "" {
			t.Errorf("no module of ours requires %s: delete it from floors", path)
		}
	}
}

// tidied returns what the go.mod of a program that imports packages requires in the end.
func tidied(t *testing.T, dir, gomod string, packages ...string) map[string]string {
	t.Helper()
	var main strings.Builder
	main.WriteString("package main\n\n")
	for _, p := range packages {
		fmt.Fprintf(&main, "import _ %q\n", p)
	}
	main.WriteString("\nfunc main() {}\n")
	for name, text := range map[string]string{"go.mod": gomod, "main.go": main.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := command(t, dir, "mod", "tidy").CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	return requirements(t, filepath.Join(dir, "go.mod"))
}

// requirements returns the versions that a go.mod requires, by path, and under "go" that of Go.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	file := gomod(t, path)
	versions := map[string]string{"go": file.Go}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

type requirement struct {
	Path, Version string
	Indirect      bool
}

type modFile struct {
	Go      string
	Require []requirement
}

// gomod reads a go.mod.
func gomod(t *testing.T, path string) (file modFile) {
	t.Helper()
	out, err := testrun.Command(t, "go", "mod", "edit", "-json", path).Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func command(t testing.TB, dir string, args ...string) *exec.Cmd {
	cmd := testrun.Command(t, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	return cmd
}
