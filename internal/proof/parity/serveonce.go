package parity

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// ServeOnce sends one request over TLS to a server with handler h, by HTTP/2 or HTTP/1.1.
func ServeOnce(t *testing.T, h http.Handler, http2 bool) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = http2
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body) // to close it early would end the request of a handler that flushes
	response.Body.Close()
}
