package examples

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

func TestTheRegistryAnswersProbesOfDeniedClients(t *testing.T) {
	onBoth(t, "registry", func(t *testing.T, url string) {
		for _, request := range []string{
			"GET /v2/app/manifests/1", "POST /v2/app/blobs/uploads/", "POST /git/app.git/info/lfs/objects/batch",
		} {
			method, at, _ := strings.Cut(request, " ")
			for range 59 {
				send(t, method, url+at, "").want(t, http.StatusOK)
			}
			denied(t, func() answer { return send(t, method, url+at, "") })
		}
		for _, probe := range []string{
			"GET /healthz", "OPTIONS /healthz", "GET /v2/", "HEAD /v2/app/manifests/1", "HEAD /v2/app/blobs/sha256:1",
			"HEAD /simple/pip/", "HEAD /packages/pip.whl", "GET /git/app.git/info/refs?service=git-upload-pack",
		} {
			method, at, _ := strings.Cut(probe, " ")
			send(t, method, url+at, "").want(t, http.StatusOK).field(t, "RateLimit-Policy", `"probes";q=600;w=60`)
		}
		for _, middle := range []string{
			"GET /v2/app/blobs/sha256:1", "PATCH /v2/app/blobs/uploads/7", "PUT /v2/app/blobs/uploads/7",
			"PUT /v2/app/manifests/1",
		} {
			method, at, _ := strings.Cut(middle, " ")
			send(t, method, url+at, "").want(t, http.StatusOK).field(t, "RateLimit", `"others"`)
		}
	})
}

func TestAFloodOfProbesOfARegistryIsDenied(t *testing.T) {
	onBoth(t, "registry", func(t *testing.T, url string) {
		for range 600 {
			send(t, "GET", url+"/v2/", "")
		}
		denied(t, func() answer { return send(t, "GET", url+"/healthz", "") }).field(t, "RateLimit", `"probes";r=0`)
		send(t, "GET", url+"/v2/app/manifests/1", "").want(t, http.StatusOK)
	})
}

// 61 packages are 122 requests. The last ten of 160 wait for their turn.
func TestAnInstallThroughTheMirrorIsNeverDenied(t *testing.T) {
	onBoth(t, "registry", func(t *testing.T, url string) {
		var all sync.WaitGroup
		for i := range 160 {
			all.Go(func() {
				if a := send(t, "GET", fmt.Sprintf("%s/simple/p%d/", url, i), ""); a.StatusCode != http.StatusOK {
					t.Errorf("%s of an index page", a.Status)
				}
			})
		}
		all.Wait()
	})
}

func TestARegistryRefusesPathsThatServersReadInTwoWays(t *testing.T) {
	url := start(t, "systems/registry")
	for _, at := range []string{
		"/v2//app/manifests/1", "/v2/app/x/%2e%2e/manifests/1", "/v2/app/manifests%2F1", "/v2/./",
		"/v2/app/manifests;a=b/1", "/v2/app/manifests%3B/1", "/v2/app/manifests%252F1", "/v2/app%3F/manifests/1",
	} {
		send(t, "GET", url+at, "").want(t, http.StatusBadRequest)
	}
	send(t, "get", url+"/v2/app/manifests/1", "").want(t, http.StatusBadRequest)
	for at, rule := range map[string]string{
		"/v2/app/blobs/uploads": "pushes", "/git/app/info/lfs/objects/batch/": "lfs", "/git/app/git-upload-pack/": "git",
	} {
		send(t, "POST", url+at, "").want(t, http.StatusOK).field(t, "RateLimit", `"`+rule+`"`)
	}
	a := send(t, "GET", url+"/v2/library/app/manifests/sha256:1", "").want(t, http.StatusOK)
	a.field(t, "RateLimit", `"pulls"`)
}

func TestSkopeoPushesAndPullsThroughTheRegistry(t *testing.T) {
	testrun.FullOnly(t, "before a real registry")
	skopeo, registry := testrun.Program(t, "skopeo"), testrun.Program(t, "docker-registry")
	dir, addr := t.TempDir(), freeAddr(t)
	config := filepath.Join(dir, "registry.yml")
	write(t, config, fmt.Sprintf("version: 0.1\nlog: {level: error}\nhttp: {addr: %q}\n"+
		"storage: {filesystem: {rootdirectory: %q}}\n", addr, filepath.Join(dir, "blobs")))
	background(t, addr, registry, "serve", config)
	writeImage(t, filepath.Join(dir, "image"))
	url := start(t, "systems/registry", "REGISTRY=http://"+addr)
	run := func(args ...string) {
		t.Helper()
		cmd := testrun.Command(t, skopeo, append([]string{"--insecure-policy"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("skopeo %v: %v\n%s", args, err, out)
		}
	}
	at := "docker://" + strings.TrimPrefix(url, "http://") + "/library/app:1"
	run("copy", "--dest-tls-verify=false", "oci:"+filepath.Join(dir, "image"), at)
	for range 100 { // more probes than a client has pulls
		send(t, "GET", url+"/v2/", "").want(t, http.StatusOK)
	}
	run("copy", "--src-tls-verify=false", at, "oci:"+filepath.Join(dir, "copy"))
	a := send(t, "GET", url+"/v2/library/app/manifests/1", "", "Accept", "application/vnd.oci.image.manifest.v1+json")
	a.want(t, http.StatusOK).field(t, "RateLimit", `"pulls";r=5`)
}

// writeImage writes an image with one layer, in the layout of OCI.
func writeImage(t *testing.T, dir string) {
	t.Helper()
	blob := func(text string) string {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		write(t, filepath.Join(dir, "blobs", "sha256", sum), text)
		return fmt.Sprintf(`"digest":"sha256:%s","size":%d`, sum, len(text))
	}
	layer := string(make([]byte, 1024)) // an empty archive
	config := blob(fmt.Sprintf(`{"architecture":"amd64","os":"linux",`+
		`"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256([]byte(layer))))
	manifest := blob(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
		`"config":{"mediaType":"application/vnd.oci.image.config.v1+json",` + config + `},` +
		`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar",` + blob(layer) + `}]}`)
	write(t, filepath.Join(dir, "oci-layout"), `{"imageLayoutVersion":"1.0.0"}`)
	write(t, filepath.Join(dir, "index.json"), `{"schemaVersion":2,"manifests":[`+
		`{"mediaType":"application/vnd.oci.image.manifest.v1+json",`+manifest+`}]}`)
}

func TestPipInstallsThroughTheMirror(t *testing.T) {
	testrun.FullOnly(t, "with pip")
	python := testrun.Program(t, "python3")
	dir := t.TempDir()
	for _, name := range []string{"inner", "outer"} {
		needs := map[string]string{"outer": "Requires-Dist: inner\n"}[name]
		writeWheel(t, python, filepath.Join(dir, "packages", name+"-1.0-py3-none-any.whl"), name, needs)
		write(t, filepath.Join(dir, "simple", name, "index.html"),
			fmt.Sprintf(`<a href="/packages/%s-1.0-py3-none-any.whl">%[1]s-1.0-py3-none-any.whl</a>`, name))
	}
	mirror := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(mirror.Close)
	url := start(t, "systems/registry", "MIRROR="+mirror.URL)
	for range 200 { // more than an address has pulls
		send(t, "HEAD", url+"/simple/outer/", "").want(t, http.StatusOK)
	}
	cmd := testrun.Command(t, python, "-m", "pip", "install", "--isolated", "--disable-pip-version-check",
		"--no-cache-dir", "--index-url", url+"/simple/", "--target", filepath.Join(dir, "installed"), "outer")
	const success = "Successfully installed inner-1.0 outer-1.0"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), success) {
		t.Errorf("%v\n%s", err, out)
	}
}

// writeWheel writes a package of Python without code.
func writeWheel(t *testing.T, python, path, name, needs string) {
	t.Helper()
	write(t, path, "")
	cmd := testrun.Command(t, python, "-c", `import sys, zipfile
path, name, needs = sys.argv[1:]
with zipfile.ZipFile(path, 'w') as wheel:
    at = name + '-1.0.dist-info/'
    wheel.writestr(at + 'METADATA', 'Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n%s' % (name, needs))
    wheel.writestr(at + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(at + 'RECORD', '')`, path, name, needs)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestGitWithLFSWorksThroughTheRegistry(t *testing.T) {
	testrun.FullOnly(t, "before a real git")
	git, lfs := testrun.Program(t, "git"), testrun.Program(t, "git-lfs")
	dir := t.TempDir()
	run := func(at string, args ...string) string {
		t.Helper()
		cmd := testrun.Command(t, git, args...)
		cmd.Dir = at
		cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
			"PATH="+filepath.Dir(lfs)+string(os.PathListSeparator)+os.Getenv("PATH"),
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	folder := strings.TrimSpace(run(dir, "--exec-path"))
	repositories := filepath.Join(dir, "repositories")
	run(dir, "init", "-q", "--bare", "-b", "main", filepath.Join(repositories, "app.git"))
	run(filepath.Join(repositories, "app.git"), "config", "http.receivepack", "true")
	objects := &lfsServer{objects: map[string][]byte{}, git: &cgi.Handler{
		Path: filepath.Join(folder, "git-http-backend"), Root: "/git", Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + repositories, "GIT_HTTP_EXPORT_ALL=1"},
	}}
	behind := httptest.NewServer(objects)
	t.Cleanup(behind.Close)
	url := start(t, "systems/registry", "GIT="+behind.URL)
	run(dir, "lfs", "install", "--skip-repo")
	run(dir, "init", "-q", "-b", "main", "work")
	work := filepath.Join(dir, "work")
	write(t, filepath.Join(work, "large.bin"), strings.Repeat("large ", 1000))
	run(work, "lfs", "track", "*.bin")
	run(work, "add", ".")
	run(work, "commit", "-q", "-m", "Add a large file")
	run(work, "push", "-q", url+"/git/app.git", "main")
	for range 100 { // more discoveries than an address has pulls
		send(t, "GET", url+"/git/app.git/info/refs?service=git-upload-pack", "").want(t, http.StatusOK)
	}
	run(dir, "clone", "-q", url+"/git/app.git", "copy")
	text, err := os.ReadFile(filepath.Join(dir, "copy", "large.bin"))
	if err != nil || len(text) != 6000 || len(objects.objects) != 1 {
		t.Errorf("the clone has %d bytes of the large file, the server %d objects (%v)",
			len(text), len(objects.objects), err)
	}
	send(t, "POST", url+"/git/app.git/info/lfs/objects/batch", `{"operation":"download","objects":[]}`).
		field(t, "RateLimit", `"lfs";r=5`)
}

// lfsServer is git and the objects of LFS, with their basic transfer alone.
type lfsServer struct {
	git http.Handler

	mu      sync.Mutex
	objects map[string][]byte
}

func (s *lfsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, isLFS := strings.CutPrefix(r.URL.Path, "/git/app.git/info/lfs/")
	oid, isObject := strings.CutPrefix(at, "object/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !isLFS:
		s.git.ServeHTTP(w, r)
	case isObject && r.Method == http.MethodPut:
		s.objects[oid], _ = io.ReadAll(r.Body)
	case isObject:
		w.Write(s.objects[oid])
	case at == "objects/batch":
		s.batch(w, r)
	default: // locks
		http.NotFound(w, r)
	}
}

func (s *lfsServer) batch(w http.ResponseWriter, r *http.Request) {
	type action struct {
		Href string `json:"href"`
	}
	type object struct {
		OID     string            `json:"oid"`
		Size    int64             `json:"size"`
		Actions map[string]action `json:"actions,omitempty"`
	}
	var asked struct {
		Operation string
		Objects   []object
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := url.URL{Scheme: "http", Host: r.Host}
	for i := range asked.Objects {
		at.Path = "/git/app.git/info/lfs/object/" + asked.Objects[i].OID
		asked.Objects[i].Actions = map[string]action{asked.Operation: {at.String()}}
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": asked.Objects})
}

// write writes a file, with its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// background runs a program until the test ends, and returns once it listens on addr.
func background(t *testing.T, addr, program string, args ...string) {
	t.Helper()
	cmd := testrun.Command(t, program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
