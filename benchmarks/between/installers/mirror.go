package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Mirror serves packages and their index pages from memory, and asks nothing of the outside.
type mirror map[string]page // by decoded path

// Page is one answer of a mirror. A client that asks for JSON gets json, if there is one.
type page struct {
	body, json []byte
	kind       string // of body
}

const simpleJSON = "application/vnd.pypi.simple.v1+json"

// base stands for the mirror's own scheme and host in pages, which name the files they list.
const base = "http://mirror.invalid"

// packages returns how many packages m has.
func (m mirror) packages() (n int) {
	for path := range m {
		if packageFile.MatchString(path) {
			n++
		}
	}
	return n
}

var packageFile = regexp.MustCompile(`\.(tgz|whl|zip)$|/download$`)

func (m mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := m[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	body, kind := p.body, p.kind
	if p.json != nil && strings.Contains(r.Header.Get("Accept"), simpleJSON) {
		body, kind = p.json, simpleJSON
	}
	if kind != binary {
		body = bytes.ReplaceAll(body, []byte(base), []byte("http://"+r.Host))
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

const binary = "application/octet-stream"

// fromNPM reads the cache of npm: tarballs, and index pages of the registry.
func fromNPM(folder string) (http.Handler, error) {
	const key = "make-fetch-happen:request-cache:"
	m := mirror{}
	err := files(filepath.Join(folder, "_cacache", "index-v5"), func(_ string, data []byte) error {
		for line := range strings.Lines(string(data)) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), "\t")
			var entry struct{ Key, Integrity string }
			if json.Unmarshal([]byte(text), &entry) != nil || !strings.HasPrefix(entry.Key, key) {
				continue
			}
			u, err := url.Parse(strings.TrimPrefix(entry.Key, key))
			if err != nil {
				return err
			}
			algorithm, digest, _ := strings.Cut(entry.Integrity, "-")
			sum, err := base64.StdEncoding.DecodeString(digest)
			if err != nil || len(sum) < 3 {
				return fmt.Errorf("integrity of %s: %q", entry.Key, entry.Integrity)
			}
			name := hex.EncodeToString(sum)
			body, err := os.ReadFile(filepath.Join(folder, "_cacache", "content-v2", algorithm,
				name[:2], name[2:4], name[4:]))
			if err != nil {
				return err
			}
			p := page{body: body, kind: binary}
			if !strings.HasSuffix(u.Path, ".tgz") {
				p.kind = "application/vnd.npm.install-v1+json"
				p.body = bytes.ReplaceAll(body, []byte(u.Scheme+"://"+u.Host), []byte(base))
			}
			m[u.Path] = p
		}
		return nil
	})
	return m, err
}

// fromWheels makes the index pages of the wheels in folder (PEP 503, 691 and 658).
func fromWheels(folder string) (http.Handler, error) {
	type file struct {
		Filename string            `json:"filename"`
		URL      string            `json:"url"`
		Hashes   map[string]string `json:"hashes"`
		Metadata map[string]string `json:"core-metadata"`
	}
	m := mirror{}
	separators := regexp.MustCompile(`[-_.]+`)
	err := files(folder, func(path string, data []byte) error {
		name := filepath.Base(path)
		project, _, _ := strings.Cut(name, "-")
		project = strings.ToLower(separators.ReplaceAllString(project, "-"))
		metadata, err := metadataOf(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f := file{name, base + "/files/" + name, map[string]string{"sha256": sum(data)},
			map[string]string{"sha256": sum(metadata)}}
		list, err := json.Marshal(map[string]any{
			"meta": map[string]string{"api-version": "1.0"}, "name": project, "files": []file{f}})
		if err != nil {
			return err
		}
		m["/simple/"+project+"/"] = page{
			kind: "text/html",
			json: list,
			body: fmt.Appendf(nil, "<!DOCTYPE html><a href=\"%s#sha256=%s\" "+
				"data-core-metadata=\"sha256=%s\">%s</a>\n",
				f.URL, sum(data), sum(metadata), html.EscapeString(name)),
		}
		m["/files/"+name] = page{body: data, kind: binary}
		m["/files/"+name+".metadata"] = page{body: metadata, kind: binary}
		return nil
	})
	return m, err
}

// metadataOf returns the file METADATA of a wheel.
func metadataOf(wheel []byte) ([]byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(archive.File, func(f *zip.File) bool {
		return strings.HasSuffix(f.Name, ".dist-info/METADATA")
	})
	if i < 0 {
		return nil, errors.New("has no METADATA")
	}
	r, err := archive.File[i].Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// fromCargo reads the home of cargo: crates, and the sparse index that cargo has cached.
func fromCargo(folder string) (http.Handler, error) {
	m := mirror{"/config.json": {
		body: []byte(`{"dl":"` + base + `/crates"}`), kind: "application/json",
	}}
	err := files(filepath.Join(folder, "registry", "cache"), func(path string, data []byte) error {
		name := strings.TrimSuffix(filepath.Base(path), ".crate")
		version := regexp.MustCompile(`-[0-9]+\.[0-9]+\.[0-9]+`).FindStringIndex(name)
		if version == nil {
			return fmt.Errorf("%s: has no version", path)
		}
		crate, release := name[:version[0]], name[version[0]+1:]
		m["/crates/"+crate+"/"+release+"/download"] = page{body: data, kind: binary}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = files(filepath.Join(folder, "registry", "index"), func(path string, data []byte) error {
		_, name, ok := strings.Cut(filepath.ToSlash(path), "/.cache/")
		if !ok {
			return nil
		}
		var lines bytes.Buffer
		for _, field := range bytes.Split(data, []byte{0}) {
			if bytes.HasPrefix(field, []byte("{")) {
				lines.Write(append(field, '\n'))
			}
		}
		m["/"+name] = page{body: lines.Bytes(), kind: "text/plain"}
		return nil
	})
	return m, err
}

// fromGo reads the downloads of a module cache, whose layout is that of a module proxy.
func fromGo(folder string) (http.Handler, error) {
	root := filepath.Join(folder, "cache", "download")
	m := mirror{}
	err := files(root, func(path string, data []byte) error {
		name, err := filepath.Rel(root, path)
		m["/"+filepath.ToSlash(name)] = page{body: data, kind: binary}
		return err
	})
	return m, err
}

// files calls read for all files below folder.
func files(folder string, read func(path string, data []byte) error) error {
	n := 0
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		return read(path, data)
	})
	if n == 0 {
		err = cmp.Or(err, fmt.Errorf("%s has no files", folder))
	}
	return err
}
