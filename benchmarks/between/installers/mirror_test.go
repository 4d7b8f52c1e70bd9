package main

import (
	"archive/zip"
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// folder returns a folder with files, whose names have slashes.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func wheel(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	w, err := archive.Create("a_b-1.0.dist-info/METADATA")
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("Name: a-b"))
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMirrorsServeWhatClientsHaveLeft(t *testing.T) {
	const key = "make-fetch-happen:request-cache:http://registry.invalid/"
	for _, tt := range []struct {
		kind   string
		files  map[string]string
		accept string
		path   string
		want   string // is in the answer
	}{
		{"npm", map[string]string{
			"_cacache/index-v5/aa":                "\nx\t{\"key\":\"" + key + "@s%2fp\",\"integrity\":\"sha1-AAECAw==\"}",
			"_cacache/content-v2/sha1/00/01/0203": `"tarball":"http://registry.invalid/p.tgz"`,
		}, "", "/@s%2fp", `"tarball":"http://mirror.test/p.tgz"`},
		{"wheels", map[string]string{"a_b-1.0-py3-none-any.whl": wheel(t)}, "",
			"/simple/a-b/", `href="http://mirror.test/files/a_b-1.0-py3-none-any.whl#sha256=`},
		{"wheels", map[string]string{"a_b-1.0-py3-none-any.whl": wheel(t)}, simpleJSON,
			"/simple/a-b/", `"url":"http://mirror.test/files/a_b-1.0-py3-none-any.whl"`},
		{"wheels", map[string]string{"a_b-1.0-py3-none-any.whl": wheel(t)}, "",
			"/files/a_b-1.0-py3-none-any.whl.metadata", "Name: a-b"},
		{"cargo", map[string]string{
			"registry/cache/r/a-b-1.0.0-rc.1.crate": "crate",
			"registry/index/r/.cache/a/-b/a-b":      "\x03head\x001.0.0\x00{\"name\":\"a-b\"}\x00",
		}, "", "/a/-b/a-b", "{\"name\":\"a-b\"}\n"},
		{"cargo", map[string]string{
			"registry/cache/r/a-b-1.0.0-rc.1.crate": "crate",
			"registry/index/r/.cache/a/-b/a-b":      "\x03",
		}, "", "/crates/a-b/1.0.0-rc.1/download", "crate"},
		{"go", map[string]string{"cache/download/example.com/!a/@v/v1.0.0.mod": "module"}, "",
			"/example.com/!a/@v/v1.0.0.mod", "module"},
	} {
		handler, err := servers[tt.kind](folder(t, tt.files))
		if err != nil {
			t.Errorf("%s: %v", tt.kind, err)
			continue
		}
		r := httptest.NewRequest("GET", "http://mirror.test"+tt.path, nil)
		r.Header.Set("Accept", tt.accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s%s: %d %q, want %q", tt.kind, tt.path, w.Code, w.Body, tt.want)
		}
	}
}

func TestAnEmptyFolderIsNoMirror(t *testing.T) {
	for _, kind := range []string{"npm", "wheels", "cargo", "go"} {
		if _, err := servers[kind](t.TempDir()); err == nil {
			t.Errorf("%s: no error", kind)
		}
	}
}

func TestACellCountsDenialsForEachRequest(t *testing.T) {
	r := report{took: 1500 * time.Millisecond, requests: []request{
		{status: 429}, {status: 200}, {status: 503}, {path: "GET /a", status: 404}}}
	if got, want := r.cell(4), "ok, 1.5 s, 2 (0.5)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.failed = "exit status 1: error"
	if got, want := r.cell(2), "**fails**, 1.5 s, 2 (1.0)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := r.missing(); len(got) != 1 || got[0] != "GET /a" {
		t.Errorf("missing: %q", got)
	}
}
