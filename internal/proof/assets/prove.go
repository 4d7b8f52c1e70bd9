package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// prove returns every way in which the files of a release contradict each other, its version or its
// commit. It reads them as those who fetch them do, and calls nothing that has written them.
func (r release) prove() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := r.expected(); !slices.Equal(names, want) {
		return fmt.Errorf("the release has the files\n%s\nand must have\n%s",
			strings.Join(names, "\n"), strings.Join(want, "\n"))
	}
	errs := []error{r.proveSums(), r.proveProvenance(), r.proveNotes()}
	for _, p := range platforms {
		errs = append(errs, r.proveBinary(p))
	}
	return errors.Join(append(errs, r.proveImage())...)
}

func (r release) proveSums() error {
	text, err := os.ReadFile(r.path(sumsName))
	if err != nil {
		return err
	}
	digests, _, err := r.digests(sumsName, notesName)
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(text)) {
		digest, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if digests[name] != digest {
			errs = append(errs, fmt.Errorf("%s: the sum of %s is not that of the file", sumsName, name))
		}
		delete(digests, name)
	}
	for name := range digests {
		errs = append(errs, fmt.Errorf("%s has no sum of %s", sumsName, name))
	}
	return errors.Join(errs...)
}

func (r release) proveProvenance() error {
	name := r.provenance()
	text, err := os.ReadFile(r.path(name))
	if err != nil {
		return err
	}
	var s statement
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	digests, _, err := r.digests(name, sumsName, notesName)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range s.Subject {
		if digests[one.Name] != one.Digest["sha256"] {
			errs = append(errs, fmt.Errorf("%s: the digest of %s is not that of the file", name, one.Name))
		}
		delete(digests, one.Name)
	}
	for missing := range digests {
		errs = append(errs, fmt.Errorf("%s does not state where %s comes from", name, missing))
	}
	from := s.Predicate.BuildDefinition.Resolved
	if s.Type != statementType || s.PredicateType != provenanceType || len(from) != 1 ||
		from[0].Digest["gitCommit"] != r.commit || !strings.HasSuffix(from[0].URI, "/"+r.version) {
		errs = append(errs, fmt.Errorf("%s does not state that commit %s of %s was built",
			name, r.commit, r.version))
	}
	return errors.Join(errs...)
}

func (r release) proveNotes() error {
	text, err := os.ReadFile(r.path(notesName))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = fmt.Errorf("%s is empty", notesName)
	}
	return err
}

// proveBinary compares a binary with the platform in its name, the version and the commit, and its
// list of modules with the modules that it was built of.
func (r release) proveBinary(p platform) error {
	name := r.binary(p)
	info, err := r.built(r.path(name))
	if err != nil {
		return err
	}
	var errs []error
	want := func(what, got, want string) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s: %s is %q, and must be %q", name, what, got, want))
		}
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	want("the command", info.Path, "github.com/weir-go/weir/cmd/weir")
	want("the version", info.Main.Version, r.version)
	want("GOOS", settings["GOOS"], p.os)
	want("GOARCH", settings["GOARCH"], p.arch)
	want("CGO_ENABLED", settings["CGO_ENABLED"], "0")
	want("-trimpath", settings["-trimpath"], "true")
	want("vcs.revision", settings["vcs.revision"], r.commit)
	want("vcs.modified", settings["vcs.modified"], "false")
	for _, m := range info.Deps {
		if m.Replace != nil {
			errs = append(errs, fmt.Errorf("%s: %s is replaced by %s", name, m.Path, m.Replace.Path))
		}
		if strings.HasPrefix(m.Path, "github.com/weir-go/weir") {
			want(m.Path, m.Version, r.version)
		}
	}
	return errors.Join(append(errs, r.proveList(name, info))...)
}

// proveList compares the list of modules of a binary with what the binary says itself.
func (r release) proveList(binary string, info *debug.BuildInfo) error {
	type component struct{ Name, Version string }
	var bom struct {
		BomFormat  string
		Metadata   struct{ Component component }
		Components []component
	}
	name := r.list(binary)
	text, err := os.ReadFile(r.path(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var errs []error
	listed := make(map[component]bool)
	for _, c := range bom.Components {
		listed[c] = true
	}
	has := func(c component) {
		if !listed[c] {
			errs = append(errs, fmt.Errorf("%s does not list %s %s", name, c.Name, c.Version))
		}
		delete(listed, c)
	}
	for _, m := range info.Deps {
		has(component{m.Path, m.Version})
	}
	has(component{"std", info.GoVersion})
	for c := range listed {
		errs = append(errs, fmt.Errorf("%s lists %s %s, which the binary does not have",
			name, c.Name, c.Version))
	}
	main := component{info.Main.Path, info.Main.Version}
	if bom.Metadata.Component != main || bom.BomFormat != "CycloneDX" {
		errs = append(errs, fmt.Errorf("%s is not a CycloneDX list of %s %s", name, main.Name, main.Version))
	}
	return errors.Join(errs...)
}

// proveImage unpacks the image as a program that runs it does, and compares what it runs with the
// binaries.
func (r release) proveImage() error {
	archive, err := os.ReadFile(r.path(r.image()))
	if err != nil {
		return err
	}
	err = r.unpackImage(archive)
	if err != nil {
		err = fmt.Errorf("%s: %w", r.image(), err)
	}
	return err
}

func (r release) unpackImage(archive []byte) error {
	files, err := unpack(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	blob := func(d descriptor, into any) ([]byte, error) {
		data := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")].data
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); sum != d.Digest || len(data) != d.Size {
			return nil, fmt.Errorf("the blob %s has the digest %s", d.Digest, sum)
		}
		if into == nil {
			return data, nil
		}
		return data, json.Unmarshal(data, into)
	}
	var outer, inner index
	if err := json.Unmarshal(files["index.json"].data, &outer); err != nil {
		return err
	}
	if len(outer.Manifests) != 1 {
		return fmt.Errorf("it has %d images, and must have one", len(outer.Manifests))
	}
	if _, err := blob(outer.Manifests[0], &inner); err != nil {
		return err
	}
	on := make(map[string]bool)
	for _, d := range inner.Manifests {
		var m manifest
		var c imageConfig
		if _, err := blob(d, &m); err != nil {
			return err
		}
		if _, err := blob(m.Config, &c); err != nil {
			return err
		}
		if len(m.Layers) != 1 || len(c.RootFS.DiffIDs) != 1 || d.Platform == nil ||
			*d.Platform != c.ociPlatform {
			return fmt.Errorf("the image for %s has not one layer and one platform", c.Architecture)
		}
		packed, err := blob(m.Layers[0], nil)
		if err != nil {
			return err
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return err
		}
		unpacked, err := io.ReadAll(unzipped)
		if err != nil {
			return err
		}
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(unpacked)); sum != c.RootFS.DiffIDs[0] {
			return fmt.Errorf("the layer for %s has the digest %s, and not that of the configuration",
				c.Architecture, sum)
		}
		tree, err := unpack(bytes.NewReader(unpacked))
		if err != nil {
			return err
		}
		binary, err := os.ReadFile(r.path(r.binary(platform{c.OS, c.Architecture})))
		if err != nil {
			return err
		}
		entry := tree["weir"]
		if len(tree) != 1 || entry.mode != 0o755 || !bytes.Equal(entry.data, binary) ||
			!slices.Equal(c.Config.Entrypoint, []string{"/weir"}) {
			return fmt.Errorf("the image for %s does not run the binary for it, and that alone", c.Architecture)
		}
		on[c.OS+"/"+c.Architecture] = true
	}
	for _, p := range platforms {
		if name := p.os + "/" + p.arch; p.os == "linux" && !on[name] {
			return fmt.Errorf("there is none for %s", name)
		}
	}
	return nil
}

// unpack returns the files of a tar by their names.
func unpack(from io.Reader) (map[string]file, error) {
	files := make(map[string]file)
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files[h.Name] = file{h.Name, h.Mode, data}
	}
}
