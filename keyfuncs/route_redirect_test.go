package keyfuncs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

// A client must not make keys by paths that ServeMux only redirects.
func TestARedirectedPathIsNoRoute(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/{tenant}/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/files/", func(http.ResponseWriter, *http.Request) {})
	key := keyfuncs.MuxPattern(mux)
	for _, path := range []string{"/one", "/two", "//two"} {
		r := httptest.NewRequest(http.MethodConnect, path, nil)
		r.URL.Path, r.Host = path, "example.com"
		if got, err := key(r); err != nil || got != "" && got != "/{tenant}/" {
			t.Errorf("MuxPattern of %s: %q, %v", path, got, err)
		}
		r.Pattern = path + "/" // as ServeMux notes it
		if got, _ := keyfuncs.RoutePattern(r); path != "//two" && got != "" {
			t.Errorf("RoutePattern of %s: %q", path, got)
		}
	}
	for path, want := range map[string]string{"/one/x": "/{tenant}/", "/files/": "/files/", "/files/x": "/files/"} {
		if got, _ := key(httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("MuxPattern of %s: %q, want %q", path, got, want)
		}
	}
}
