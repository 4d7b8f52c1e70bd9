package serve

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// proxy is a program that asks for checks, as the guide sets it up.
type proxy struct {
	program string
	denied  int                          // the status that the proxy needs of a denied check; 0: 429
	run     func(s *system, path string) // of the program
}

var proxies = []proxy{
	{"nginx", http.StatusForbidden, func(s *system, path string) {
		s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+
			s.ports.Replace(s.files["nginx.conf"]))
		s.run(path, "-p", s.dir, "-c", "nginx.conf")
	}},
	{"caddy", 0, func(s *system, path string) {
		s.t.Setenv("HOME", s.dir)
		s.run(path, "run", "--adapter", "caddyfile", "--config", s.config("Caddyfile"))
	}},
	{"traefik", 0, func(s *system, path string) {
		s.run(path, "--entrypoints.web.address="+strings.TrimPrefix(s.url, "http://"),
			"--providers.file.filename="+s.config("dynamic.yaml"),
			"--global.checknewversion=false", "--global.sendanonymoususage=false")
	}},
	{"haproxy", 0, func(s *system, path string) {
		s.config("weir.lua")
		s.run(path, "-f", s.config("haproxy.cfg"))
	}},
	{"envoy", 0, func(s *system, path string) {
		s.run(path, "-c", s.envoyWithout("ratelimit"), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	}},
}

// A proxy asks by GET, whatever the method of the client is, and a client may send its body before
// it reads an answer.
func TestEachMethodIsAnsweredThroughEachProxy(t *testing.T) {
	for _, proxy := range proxies {
		t.Run(proxy.program, func(t *testing.T) {
			path := testrun.Program(t, proxy.program)
			s := setUp(t, proxy.denied, "weir.yaml")
			proxy.run(s, path)
			s.until(http.StatusOK) // one of ten requests in an hour
			s.plainly("HEAD", "/", nil, 200)
			s.plainly("GET", "/a%zz/b", nil, 400) // by the proxy, or by the program, which is in Go
			s.plainly("POST", "/login", nil, 200)
			s.plainly("POST", "/login", nil, 200)
			for _, size := range []int{1, 1 << 10, 100 << 10} {
				for range 3 {
					s.plainly("POST", "/login", make([]byte, size), 429)
				}
			}
			s.until(http.StatusTooManyRequests)
			s.plainly("HEAD", "/", nil, 429)
			s.plainly("DELETE", "/", []byte("a"), 429)
			s.plainly("OPTIONS", "/", nil, 429)
		})
	}
}

// A body of megabytes fits into no buffer on the way.
func TestADeniedUploadIsAnsweredThroughHAProxy(t *testing.T) {
	haproxy := testrun.Program(t, "haproxy")
	s := setUp(t, 0, "weir.yaml")
	s.config("weir.lua")
	s.run(haproxy, "-f", s.config("haproxy.cfg"))
	for range 10 {
		s.plainly("GET", "/", nil, 200)
	}
	for range 10 {
		s.plainly("POST", "/", make([]byte, 5<<20), 429)
	}
	s.weir.end()
	s.plainly("POST", "/", make([]byte, 5<<20), 503)
}

// until asks until the proxy answers with a status, since some listen before they are ready.
func (s *system) until(status int) {
	s.t.Helper()
	for !s.t.Failed() {
		response, err := http.Get(s.url + "/ready")
		if err != nil {
			s.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == status {
			return
		}
	}
}

// plainly asks without fields that a client should not send.
func (s *system) plainly(method, path string, body []byte, status int) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	var message bytes.Buffer
	message.WriteString(method + " " + path + " HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	message.Write(body)
	if _, err := message.WriteTo(conn); err != nil {
		s.t.Errorf("%s %s of %d bytes: %v", method, path, len(body), err)
		return
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.t.Errorf("%s %s of %d bytes: %v", method, path, len(body), err)
		return
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != status {
		s.t.Errorf("%s %s of %d bytes: %d, want %d, %v", method, path, len(body), response.StatusCode, status, err)
	}
}
