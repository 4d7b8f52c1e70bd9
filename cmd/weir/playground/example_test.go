package playground_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/cmd/weir/playground"
)

func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/tools/weir/", http.StripPrefix("/tools/weir", playground.Handler()))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/tools/weir/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
