// Command generate builds the engine of the playground: package lab as WebAssembly, and its loader.
// Run it by go generate in cmd/weir/playground after each change of core, headers or the log
// readers; a test compares the result.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// toolchain builds the engine, so that it is the same on every machine.
const toolchain = "go1.26.8"

func main() {
	log.SetFlags(0)
	files, err := build(".")
	if err != nil {
		log.Fatal("generate: ", err)
	}
	for name, content := range files {
		if strings.HasSuffix(name, ".wasm") {
			name, content = name+".gz", compress(content)
		}
		if err := os.WriteFile(filepath.Join("page", name), content, 0o644); err != nil {
			log.Fatal("generate: ", err)
		}
	}
}

// build returns the files of the engine by name, not compressed. dir is cmd/weir/playground.
func build(dir string) (map[string][]byte, error) {
	work, err := os.MkdirTemp("", "playground")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	root, err := command(dir, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	goroot := strings.TrimSpace(string(root))
	overlay, err := overlayOf(dir, goroot, work)
	if err != nil {
		return nil, err
	}
	mod, err := modOf(dir, work)
	if err != nil {
		return nil, err
	}
	// No file beneath the module cache may be replaced, and a toolchain that go has fetched is there.
	// So the build has a cache of its own, filled from the other one.
	usual, err := command(dir, "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(string(usual)), "\n")
	known := filepath.ToSlash(filepath.Join(strings.TrimSpace(cache), "cache", "download"))
	own := []string{
		"GOMODCACHE=" + filepath.Join(work, "modules"), "GOFLAGS=-modcacherw",
		"GOPROXY=file://" + known + "," + proxy, "GOTOOLCHAIN=local", "GOROOT=" + goroot,
	}
	program, out := filepath.Join(goroot, "bin", "go"), filepath.Join(work, "playground.wasm")
	// Omit paths, the state of the repository and the list of modules.
	if _, err := run(dir, program, own, "build", "-o", out, "-modfile", mod,
		"-overlay", overlay,
		"-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X=runtime.modinfo=", "./wasm"); err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for name, from := range map[string]string{
		"playground.wasm":      out,
		"wasm_exec.js":         filepath.Join(goroot, "lib", "wasm", "wasm_exec.js"),
		"wasm_exec.js.LICENSE": filepath.Join(goroot, "LICENSE"),
	} {
		if files[name], err = os.ReadFile(from); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// modOf writes a go.mod that uses the core of this repository, and returns its path. The names of
// files contain the version of their module, so a release does not change them.
func modOf(dir, work string) (string, error) {
	module, err := filepath.Abs(filepath.Join(dir, "..")) // cmd/weir
	if err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(work, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	path := filepath.Join(work, "go.mod")
	const weir = "github.com/weir-go/weir"
	_, err = command(dir, "mod", "edit", "-require="+weir+"@v0.0.0",
		"-replace="+weir+"="+filepath.Dir(filepath.Dir(module)), path)
	return path, err
}

// standIns are the packages of the standard library that a file beside this one replaces.
var standIns = map[string]string{
	"net/http":      "nethttp.go.txt",
	"crypto/hmac":   "hmac.go.txt",
	"crypto/rand":   "rand.go.txt",
	"crypto/sha256": "sha256.go.txt",
}

// overlayOf writes an overlay that replaces standIns, and returns its path.
func overlayOf(dir, goroot, work string) (string, error) {
	replace := make(map[string]string)
	for name, file := range standIns {
		real := filepath.Join(goroot, "src", filepath.FromSlash(name))
		sources, err := filepath.Glob(filepath.Join(real, "*.go"))
		if err != nil || len(sources) == 0 {
			return "", fmt.Errorf("there is no source of %s in %s: %v", name, real, err)
		}
		for _, source := range sources {
			replace[source] = ""
		}
		standIn, err := filepath.Abs(filepath.Join(dir, "generate", file))
		if err != nil {
			return "", err
		}
		replace[filepath.Join(real, filepath.Base(name)+".go")] = standIn
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// command runs the go command of the toolchain.
func command(dir string, args ...string) ([]byte, error) { return run(dir, "go", nil, args...) }

// run runs a go command with more of an environment.
func run(dir, program string, env []string, args ...string) ([]byte, error) {
	c := exec.Command(program, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain, "GOOS=js", "GOARCH=wasm", "GOWASM=",
		"GOFLAGS=",
		"GOEXPERIMENT=", "CGO_ENABLED=0")
	c.Env = append(c.Env, env...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s, by %s: %w\n%s", args[0], toolchain, err, said.Bytes())
	}
	return out, nil
}

// compress returns content as gzip.
func compress(content []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err)
	}
	w.Write(content)
	w.Close()
	return b.Bytes()
}
