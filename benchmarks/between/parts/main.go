// Parts is what benchmarks/between/parts.sh has behind and in front of a proxy that fetches a
// download or a page in parts: a limited program, and two clients. Its commands:
//
//	parts serve RULE          # prints its port, and ends with its standard input
//	parts port                # prints a free port
//	parts ask URL NAME LINES  # prints a row about the proxy at URL
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

const (
	secret = "4f0c2a61e7d94b58" // as in docs/gateway.md
	whole  = "<p>page</p><p>part</p><p>part</p><p>end</p>"
)

var download = bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)

func main() {
	switch command := strings.Join(os.Args[1:2], ""); {
	case command == "serve" && len(os.Args) == 3:
		server := httptest.NewServer(origin(os.Args[2]))
		defer server.Close()
		fmt.Println(server.URL[strings.LastIndexByte(server.URL, ':')+1:])
		io.Copy(io.Discard, os.Stdin)
	case command == "port" && len(os.Args) == 2:
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		defer listener.Close()
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	case command == "ask" && len(os.Args) == 5:
		fmt.Printf("| %s | %s | %s |\n", os.Args[3], os.Args[4], row(os.Args[2]))
	default:
		fmt.Fprintln(os.Stderr, "parts serve RULE | parts port | parts ask URL NAME LINES")
		os.Exit(2)
	}
}

// origin serves downloads below /files/ and /pages/, and pages with two parts elsewhere.
func origin(rule string) http.Handler {
	mux := http.NewServeMux()
	serveFile := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("ETag", `"download"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(download))
	}
	mux.HandleFunc("/files/", serveFile)
	mux.HandleFunc("/pages/", serveFile)
	mux.HandleFunc("/part/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprint(w, "<p>part</p>")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "private")
		part := fmt.Sprintf(`<esi:include src="/part%s"/>`, r.URL.Path)
		fmt.Fprint(w, "<p>page</p>", part, part, "<p>end</p>")
	})
	key := keyfuncs.Address(keyfuncs.MustTrustedProxies("127.0.0.1"))
	limited := nethttp.Rule{Limit: limits.SlidingWindow(limits.PerHour(10)), Name: "all", Key: key}
	want := sha256.Sum256([]byte(secret))
	switch rule {
	case "none":
		return mux
	case "requests":
	case "ranges free": // a mistake
		limited.Key = core.When(func(r *http.Request) bool {
			from := r.Header.Get("Range")
			return from == "" || strings.HasPrefix(from, "bytes=0-")
		}, key)
	case "marked":
		limited.Key = core.When(func(r *http.Request) bool {
			part := sha256.Sum256([]byte(r.Header.Get("X-Part")))
			return subtle.ConstantTimeCompare(part[:], want[:]) == 0
		}, key)
	case "bytes":
		limited.Limit = limits.SlidingWindow(limits.PerHour(int64(10 * len(download))))
		limited.FinalCost = func(r core.Result) int64 { return r.Bytes }
	default:
		panic("there is no rule " + rule)
	}
	return nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{limited}, Headers: headers.Options{NotOnStorable: true},
	}).Handler(mux)
}

// row returns what becomes of twelve downloads or pages, and how many requests pass of a client
// that sends a Range or the secret itself.
func row(url string) string {
	wholes, broken, denied, first := 0, 0, 0, ""
	for i := range 12 {
		status, body, err := get(fmt.Sprint(url, i), "127.0.0.2", "", "")
		isWhole := bytes.Equal(body, download) || string(body) == whole
		switch {
		case status == http.StatusTooManyRequests:
			denied++
		case status == http.StatusOK && err == nil && isWhole:
			wholes++
		default:
			if broken++; broken == 1 {
				first = fmt.Sprintf(", the first with %d after %d bytes", status, len(body))
			}
		}
	}
	passed := 0
	name, value := "Range", "bytes=1048576-2097151"
	if strings.HasSuffix(url, "/html/") {
		name, value = "X-Part", secret
	}
	for i := range 15 {
		if status, _, _ := get(fmt.Sprint(url, 100+i), "127.0.0.3", name, value); status < 300 {
			passed++
		}
	}
	return fmt.Sprintf("%d, %d, %d%s | %d", wholes, denied, broken, first, passed)
}

func get(url, from, name, value string) (status int, body []byte, err error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return 0, nil, err
	}
	if name != "" {
		r.Header.Set(name, value)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
