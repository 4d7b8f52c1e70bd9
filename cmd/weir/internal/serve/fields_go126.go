//go:build !go1.27

package serve

import "net/http"

// boundByBytes does nothing: the server of Go 1.26 has no bound but MaxHeaderBytes.
func boundByBytes(*http.Server) {}
