// Assets makes what a release publishes besides its modules, and proves it from the outside:
//
//	go run ./internal/proof/assets finish DIRECTORY v1.2.3 COMMIT # image, notes, provenance, sums
//	go run ./internal/proof/assets prove DIRECTORY v1.2.3 COMMIT  # fails if one of them is wrong
//
// .ci/assets builds the binaries in the directory and their lists of modules, and then calls it.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

const repository = "https://github.com/weir-go/weir"

// platforms are those that a release has a binary for.
var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"linux", "amd64"}, {"linux", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

type platform struct{ os, arch string }

// release is what the files in a directory are of.
type release struct {
	dir     string
	version string // with its v
	commit  string

	built func(file string) (*debug.BuildInfo, error) // what a binary says of itself
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 || args[0] != "finish" && args[0] != "prove" {
		return errors.New("assets: call it as in: finish DIRECTORY v1.2.3 COMMIT, " +
			"or prove DIRECTORY v1.2.3 COMMIT")
	}
	r := release{dir: args[1], version: args[2], commit: args[3], built: buildinfo.ReadFile}
	if args[0] == "prove" {
		return r.prove()
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	return r.finish(string(changelog))
}

func (r release) name(end string) string    { return "weir_" + r.version + end }
func (r release) path(name string) string   { return filepath.Join(r.dir, name) }
func (r release) image() string             { return r.name(".oci.tar") }
func (r release) provenance() string        { return r.name(".intoto.json") }
func (r release) list(binary string) string { return binary + ".cdx.json" }

func (r release) binary(p platform) string {
	name := r.name("_" + p.os + "_" + p.arch)
	if p.os == "windows" {
		name += ".exe"
	}
	return name
}

const (
	notesName = "NOTES.md"
	sumsName  = "SHA256SUMS"
)

// finish writes the files that follow from the binaries and their lists.
func (r release) finish(changelog string) error {
	var layers []layer
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		binary, err := os.ReadFile(r.path(r.binary(p)))
		if err != nil {
			return err
		}
		layers = append(layers, layer{arch: p.arch, binary: binary})
	}
	archive, err := imageOf(layers, r.version)
	if err != nil {
		return err
	}
	notes, err := notesOf(changelog, r.version)
	if err != nil {
		return err
	}
	steps := []struct {
		name string
		text func() ([]byte, error)
	}{
		{r.image(), func() ([]byte, error) { return archive, nil }},
		{notesName, func() ([]byte, error) { return []byte(notes), nil }},
		{r.provenance(), r.statement},
		{sumsName, r.sums},
	}
	for _, s := range steps {
		text, err := s.text()
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.path(s.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// digests returns the SHA-256 of all files in the directory but these, in hexadecimal, by their
// names, and the names in order.
func (r release) digests(except ...string) (map[string]string, []string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, nil, err
	}
	digests, names := make(map[string]string), []string(nil)
	for _, e := range entries {
		if slices.Contains(except, e.Name()) {
			continue
		}
		text, err := os.ReadFile(r.path(e.Name()))
		if err != nil {
			return nil, nil, err
		}
		digests[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
		names = append(names, e.Name())
	}
	return digests, names, nil
}

// sums returns the digests in the form that sha256sum -c reads.
func (r release) sums() ([]byte, error) {
	digests, names, err := r.digests(sumsName, notesName)
	var b bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&b, "%s  %s\n", digests[name], name)
	}
	return b.Bytes(), err
}

// expected returns the names of all files of a release.
func (r release) expected() []string {
	names := []string{r.image(), r.provenance(), sumsName, notesName}
	for _, p := range platforms {
		names = append(names, r.binary(p), r.list(r.binary(p)))
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
