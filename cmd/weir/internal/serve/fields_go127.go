//go:build go1.27

package serve

import "net/http"

// boundByBytes makes MaxHeaderBytes the only bound on the fields of a request. By its default a server
// of Go 1.27 answers 431 to more than 500 fields: nginx takes that for a failure of weir, and may then
// let the request pass, so a client could choose not to be counted.
func boundByBytes(h *http.Server) { h.MaxHeaderValueCount = h.MaxHeaderBytes }
