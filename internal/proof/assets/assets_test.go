package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

const commit = "c0ffee0000000000000000000000000000000000"

const changelog = `# Changelog

## [Unreleased]

- Soon: [a guide](docs/plans.md).

## [1.2.3] - 2026-11-29

- [A guide](docs/rules.md#plans), [here](#here) and [elsewhere](https://example.com/).

## [1.2.2]

- Old.

[Unreleased]: https://github.com/weir-go/weir/commits/main
`

// built is a release of binaries that only claim to be programs.
func built(t *testing.T) release {
	t.Helper()
	r := release{dir: t.TempDir(), version: "v1.2.3", commit: commit}
	infos := make(map[string]*debug.BuildInfo)
	r.built = func(file string) (*debug.BuildInfo, error) { return infos[filepath.Base(file)], nil }
	for _, p := range platforms {
		info := &debug.BuildInfo{
			GoVersion: "go1.27.4", Path: "github.com/weir-go/weir/cmd/weir",
			Main: debug.Module{Path: "github.com/weir-go/weir/cmd/weir", Version: r.version},
			Deps: []*debug.Module{
				{Path: "github.com/spf13/cobra", Version: "v1.10.2"},
				{Path: "github.com/weir-go/weir", Version: r.version},
			},
			Settings: []debug.BuildSetting{
				{Key: "-trimpath", Value: "true"}, {Key: "CGO_ENABLED", Value: "0"},
				{Key: "GOOS", Value: p.os}, {Key: "GOARCH", Value: p.arch},
				{Key: "vcs.revision", Value: r.commit}, {Key: "vcs.modified", Value: "false"},
			},
		}
		infos[r.binary(p)] = info
		write(t, r.path(r.binary(p)), "binary for "+p.os+" on "+p.arch)
		write(t, r.path(r.list(r.binary(p))), `{"bomFormat": "CycloneDX",
			"metadata": {"component": {"name": "github.com/weir-go/weir/cmd/weir", "version": "v1.2.3"}},
			"components": [{"name": "github.com/spf13/cobra", "version": "v1.10.2"},
				{"name": "github.com/weir-go/weir", "version": "v1.2.3"}, {"name": "std", "version": "go1.27.4"}]}`)
	}
	if err := r.finish(changelog); err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAFinishedReleaseIsProved(t *testing.T) {
	if err := built(t).prove(); err != nil {
		t.Error(err)
	}
}

func TestAFaultOfAReleaseIsFound(t *testing.T) {
	linux := platform{"linux", "arm64"}
	replace := func(t *testing.T, path, old, with string) {
		t.Helper()
		text := read(t, path)
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %s", path, old)
		}
		write(t, path, strings.ReplaceAll(text, old, with))
	}
	for name, fault := range map[string]struct {
		plant func(*testing.T, *release)
		want  string
	}{
		"a binary is missing": {func(t *testing.T, r *release) { os.Remove(r.path(r.binary(linux))) },
			"and must have"},
		"a file too many": {func(t *testing.T, r *release) { write(t, r.path("weir"), "") }, "and must have"},
		"a binary changes": {func(t *testing.T, r *release) { write(t, r.path(r.binary(linux)), "other") },
			"the sum of weir_v1.2.3_linux_arm64 is not that of the file"},
		"the image runs something else": {func(t *testing.T, r *release) {
			write(t, r.path(r.binary(linux)), "other")
		}, "the image for arm64 does not run the binary for it"},
		"a blob changes": {func(t *testing.T, r *release) {
			replace(t, r.path(r.image()), "65532:65532", "00000:00000")
		}, "has the digest"},
		"a sum is missing": {func(t *testing.T, r *release) {
			lines := strings.SplitAfter(read(t, r.path(sumsName)), "\n")
			write(t, r.path(sumsName), strings.Join(lines[1:], ""))
		}, "SHA256SUMS has no sum of weir_v1.2.3.intoto.json"},
		"a list lacks a module": {func(t *testing.T, r *release) {
			replace(t, r.path(r.list(r.binary(linux))), "cobra", "viper")
		}, "does not list github.com/spf13/cobra v1.10.2"},
		"a list has another module": {func(t *testing.T, r *release) {
			replace(t, r.path(r.list(r.binary(linux))), "cobra", "viper")
		}, "lists github.com/spf13/viper v1.10.2, which the binary does not have"},
		"another commit": {func(t *testing.T, r *release) { r.commit = "decaf" },
			`vcs.revision is "` + commit + `", and must be "decaf"`},
		"a provenance of another commit": {func(t *testing.T, r *release) {
			replace(t, r.path(r.provenance()), commit, "decaf")
		}, "does not state that commit " + commit + " of v1.2.3 was built"},
		"a provenance of other bytes": {func(t *testing.T, r *release) {
			text := read(t, r.path(r.provenance()))
			sum := regexp.MustCompile(`"sha256": "[0-9a-f]+`).FindString(text)
			replace(t, r.path(r.provenance()), sum, `"sha256": "0`)
		}, "the digest of weir_v1.2.3.oci.tar is not that of the file"},
		"no notes": {func(t *testing.T, r *release) { write(t, r.path(notesName), "\n") }, "NOTES.md is empty"},
		"a module is replaced": {func(t *testing.T, r *release) {
			info, _ := r.built(r.binary(linux))
			info.Deps[0].Replace = &debug.Module{Path: "../cobra"}
		}, "github.com/spf13/cobra is replaced by ../cobra"},
		"uncommitted changes": {func(t *testing.T, r *release) {
			info, _ := r.built(r.binary(linux))
			info.Settings[5].Value = "true"
		}, `vcs.modified is "true"`},
		"another processor": {func(t *testing.T, r *release) {
			info, _ := r.built(r.binary(linux))
			info.Settings[3].Value = "amd64"
		}, `GOARCH is "amd64", and must be "arm64"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := built(t)
			fault.plant(t, &r)
			if err := r.prove(); err == nil || !strings.Contains(err.Error(), fault.want) {
				t.Errorf("%v\nwant %s", err, fault.want)
			}
		})
	}
}

func TestTheSameBinariesGiveTheSameBytes(t *testing.T) {
	a, b := built(t), built(t)
	for _, name := range a.expected() {
		if read(t, a.path(name)) != read(t, b.path(name)) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	const blob = repository + "/blob/"
	for version, want := range map[string]string{
		"v1.2.3": "- [A guide](" + blob + "v1.2.3/docs/rules.md#plans), [here](#here) and " +
			"[elsewhere](https://example.com/).\n",
		"v1.2.2":      "- Old.\n",
		"v1.3.0-rc.1": "- Soon: [a guide](" + blob + "v1.3.0-rc.1/docs/plans.md).\n",
	} {
		if got, err := notesOf(changelog, version); got != want || err != nil {
			t.Errorf("%s: %q, %v\nwant %q", version, got, err, want)
		}
	}
	for text, want := range map[string]string{
		changelog:                         "CHANGELOG.md has no heading ## [2.0.0]",
		"## [2.0.0]\n\n## [1.0.0]\n- Old": "says nothing below ## [2.0.0]",
		"## [2.0.0]\n\n- " + strings.Repeat("long ", 30_000): "shorten its section",
	} {
		if _, err := notesOf(text, "v2.0.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Two ways to make one image, by hand and for a release.
func TestTheImageIsThatOfTheContainerfile(t *testing.T) {
	containerfile := read(t, "../../../cmd/weir/Containerfile")
	config := configOf(layer{arch: "amd64"}, "v1.2.3", nil).Config
	list := func(keyword string) (values []string) {
		text := regexp.MustCompile(`(?m)^` + keyword + ` (.*)$`).FindStringSubmatch(containerfile)[1]
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		return values
	}
	if want := list("ENTRYPOINT"); !slices.Equal(config.Entrypoint, want) {
		t.Errorf("entry point %q, want %q", config.Entrypoint, want)
	}
	if want := list("CMD"); !slices.Equal(config.Cmd, want) {
		t.Errorf("command %q, want %q", config.Cmd, want)
	}
	if !strings.Contains(containerfile, "\nUSER "+config.User+"\n") {
		t.Errorf("user %q", config.User)
	}
	ports := strings.Fields(regexp.MustCompile(`(?m)^EXPOSE (.*)$`).FindStringSubmatch(containerfile)[1])
	for _, port := range ports {
		if _, ok := config.ExposedPorts[port+"/tcp"]; !ok || len(ports) != len(config.ExposedPorts) {
			t.Errorf("port %s: %v", port, config.ExposedPorts)
		}
	}
}

func TestInTotoTakesTheProvenance(t *testing.T) {
	testrun.FullOnly(t, "fetches the library of in-toto")
	r, dir := built(t), t.TempDir()
	write(t, filepath.Join(dir, "main.go"), read(t, "testdata/intoto/main.go"))
	for _, args := range [][]string{
		{"mod", "init", "example.com/intoto"},
		{"get", "github.com/in-toto/attestation@v1.2.0"},
		{"mod", "tidy"},
		{"run", ".", r.path(r.provenance())},
	} {
		cmd := testrun.Command(t, "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestSkopeoReadsTheImage(t *testing.T) {
	skopeo := testrun.Program(t, "skopeo")
	r := built(t)
	image := "oci-archive:" + r.path(r.image())
	for _, arch := range []string{"amd64", "arm64"} {
		var out, said bytes.Buffer
		cmd := testrun.Command(t, skopeo, "inspect", "--override-os", "linux", "--override-arch", arch, "--config", image)
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
		var config imageConfig
		if err := json.Unmarshal(out.Bytes(), &config); err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
			t.Errorf("%s: %+v", arch, config)
		}
	}
}
