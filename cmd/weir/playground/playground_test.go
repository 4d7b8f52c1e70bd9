package playground_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/playground"
	"github.com/weir-go/weir/cmd/weir/playground/lab"
)

func get(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	playground.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// sources are the files of the page that a person writes, by name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	page := os.DirFS("page")
	names, err := fs.Glob(page, "*")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, name := range names {
		if strings.HasPrefix(name, "wasm_exec") || strings.HasSuffix(name, ".gz") {
			continue
		}
		text, err := fs.ReadFile(page, name)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(text)
	}
	if len(found) < 8 {
		t.Fatalf("found only %d files", len(found))
	}
	return found
}

func TestHandler(t *testing.T) {
	for _, test := range []struct {
		method, path string
		status       int
		contentType  string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/?panel=5/10s", 200, "text/html; charset=utf-8"},
		{"GET", "/page.css", 200, "text/css; charset=utf-8"},
		{"GET", "/main.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/wasm_exec.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/icon.svg", 200, "image/svg+xml"},
		{"GET", "/playground.wasm.gz", 200, "application/gzip"},
		{"GET", "/absent.js", 404, "text/plain; charset=utf-8"},
		{"GET", "/page/main.js", 404, "text/plain; charset=utf-8"},
		{"GET", "/../playground.go", 404, "text/plain; charset=utf-8"},
		{"POST", "/", 405, "text/plain; charset=utf-8"},
	} {
		w := get(t, test.method, test.path)
		if w.Code != test.status || w.Header().Get("Content-Type") != test.contentType {
			t.Errorf("%s %s: %d %s, want %d %s", test.method, test.path, w.Code, w.Header().Get("Content-Type"),
				test.status, test.contentType)
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; ") ||
			strings.Contains(csp, "unsafe-inline") {
			t.Errorf("%s %s: the policy is %q", test.method, test.path, csp)
		}
	}
	if w := get(t, http.MethodHead, "/"); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

// A server of files sends no policy, so the page has one of its own: the same, but for
// what only a header can say.
func TestThePageHasThePolicyOfTheServer(t *testing.T) {
	header := get(t, "GET", "/").Header().Get("Content-Security-Policy")
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`)
	own := policy.FindStringSubmatch(sources(t)["index.html"])
	if want := strings.Replace(header, "frame-ancestors 'none'; ", "", 1); own == nil || own[1] != want {
		t.Errorf("the page has %q, want %q", own, want)
	}
}

func TestTheEngineIsSmall(t *testing.T) {
	if n := get(t, "GET", "/playground.wasm.gz").Body.Len(); n > 1_800_000 {
		t.Errorf("playground.wasm.gz has %d bytes, want at most 1790000", n)
	}
}

// The engine decides, and JavaScript draws. So it computes nothing from a limit, and draws
// no lots.
// frame.js reads what lab/frame.go writes.
func TestThePageReadsFramesAsTheyAreWritten(t *testing.T) {
	text := sources(t)["frame.js"]
	for name, want := range map[string]int{
		"head": lab.HeadFields, "perPanel": lab.PanelFields, "perGauge": lab.GaugeFields, "perEvent": lab.EventFields,
	} {
		m := regexp.MustCompile(`\b` + name + ` = (\d+)`).FindStringSubmatch(text)
		if m == nil || m[1] != strconv.Itoa(want) {
			t.Errorf("%s is %v in frame.js, want %d", name, m, want)
		}
	}
}
