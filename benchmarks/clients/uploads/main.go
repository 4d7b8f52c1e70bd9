// Uploads serves a limiter that denies every request but the first, over HTTP/2 with TLS and over
// HTTP/1.1. It prints both addresses and ends when its standard input does. uploads.sh beside it
// sends it uploads by clients of several languages.
//
//	go run ./clients/uploads -drain 0
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func main() {
	drain := flag.Int64("drain", 0, "DrainLimit of the limiter; negative: bodies are not read")
	flag.Parse()
	limit := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{Name: "all", Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: keyfuncs.Constant[*http.Request]("all")}},
		DrainLimit: *drain,
	})
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	plain := httptest.NewServer(handler)
	response, err := http.Get(plain.URL) // the only request that is allowed
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	fmt.Println(secure.URL, plain.URL)
	io.Copy(io.Discard, os.Stdin)
}
