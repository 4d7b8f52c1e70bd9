// Package playground serves the page of "weir playground", which shows how every algorithm decides
// requests that come by click or at random.
//
// The page is static. Any file server can serve the directory page, under any path.
package playground

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:generate go run ./generate

//go:embed page
var files embed.FS

// types are the content types of the files by extension.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".gz":   "application/gzip", // the page decompresses it itself, on any server
}

// Handler serves the page at /. It answers only GET and HEAD.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "+
		"style-src 'self'; connect-src 'self'; img-src 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for "+
		"'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	contentType, known := types[path.Ext(name)]
	if !known || !fs.ValidPath(name) || strings.Contains(name, "/") {
		http.NotFound(w, r)
		return
	}
	content, err := files.ReadFile("page/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	h.Set("Content-Type", contentType)
	w.Write(content)
}
