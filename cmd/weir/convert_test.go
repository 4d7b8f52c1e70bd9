package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// limitedBy is a configuration of nginx with a burst. At 1r/m a unit returns after 62.5 seconds.
const limitedBy = `
	log_format exact escape=json '{"msec":"$msec","remote_addr":"$remote_addr","request":"$request",'
		'"status":"$status","request_time":"$request_time"}';
	access_log exact.log exact;
	access_log whole.log combined;
	limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
	server {
		listen LISTEN;
		location / { limit_req zone=one burst=BURST nodelay; empty_gif; }
		location /free/ { empty_gif; }
	}`

// nginxLogs sends requests through a real nginx with a burst of 5, and returns the directory of its logs.
func nginxLogs(t *testing.T, paths ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "nginx.conf", []byte("pid nginx.pid;\ndaemon off;\nevents {}\nhttp {"+
		strings.NewReplacer("LISTEN", address, "BURST", "5").Replace(limitedBy)+"\n}\n"))
	cmd := testrun.Command(t, "nginx", "-p", dir, "-c", "nginx.conf", "-e", "error.log")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		<-ended
	})
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Fatalf("nginx has ended: %s", text)
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, path := range paths {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	for { // nginx writes a line after the client has the answer
		text, _ := os.ReadFile(filepath.Join(dir, "whole.log"))
		if bytes.Count(text, []byte("\n")) == len(paths) {
			return dir
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestALogOfNginxIsReplayedByThePolicy(t *testing.T) {
	paths := []string{"/free/", "/free/"}
	for i := range 10 {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	dir := nginxLogs(t, paths...)
	for _, c := range []struct {
		name, log, burst string
		want             []string
		code             int
	}{
		{"the same", "exact.log", "5", []string{"both               4", "nginx alone        0", "policy alone   0"},
			exitDone},
		{"whole seconds", "whole.log", "5", []string{"both               4", "nginx alone        0",
			"policy alone   0"}, exitDone},
		{"less", "exact.log", "3", []string{"both               4", "nginx alone        0", "policy alone   2"},
			exitFound},
		{"more", "exact.log", "8", []string{"both               1", "nginx alone        3", "policy alone   0"},
			exitFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := put(t, t.TempDir(), "nginx.conf", []byte(strings.ReplaceAll(limitedBy, "BURST", c.burst)))
			var out, errOut bytes.Buffer
			file := filepath.Join(t.TempDir(), "weir.yaml")
			code := run([]string{"convert", "nginx", conf, "-o", file, "--replay", filepath.Join(dir, c.log)}, nil,
				&out, &errOut)
			for _, want := range append(c.want, "The rules apply to 10 requests. nginx denied by 503.") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q, got\n%s%s", want, &out, &errOut)
				}
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if code := run([]string{"check", file}, nil, io.Discard, &errOut); code != exitDone {
				t.Errorf("check: exit code %d, %s", code, &errOut)
			}
		})
	}
}

func TestALogThatSaysTooLittleIsNotReplayed(t *testing.T) {
	dir := t.TempDir()
	conf := put(t, dir, "nginx.conf", []byte(`
		limit_req_zone $http_x_tenant zone=one:1m rate=1r/s;
		limit_req_zone $binary_remote_addr zone=two:1m rate=1r/s;
		server { location / { limit_req zone=one; } location /two/ { limit_req zone=two; } }`))
	host := put(t, dir, "host.conf", []byte(`
		limit_req_zone $http_x_tenant zone=one:1m rate=1r/s;
		server { location / { limit_req zone=one; } }`))
	combined := put(t, dir, "access.log", []byte(logOf(10, "20/Nov/2026")))
	const line = `{"time":1795867259000,"a":"203.0.113.9","m":"GET","p":"/two/"}` + "\n"
	bare := put(t, dir, "bare.jsonl", []byte(strings.Repeat(line, 20)))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{host, "--replay", combined}, "no rule could be replayed: one: the log does not have the header X-Tenant"},
		{[]string{conf, "--replay", combined}, "Not replayed:\n  one: the log does not have the header X-Tenant"},
		{[]string{conf, "--replay", bare, "--format", "jsonl", "--field", "time=time,address=a,method=m,path=p"},
			"the log has no status"},
		{[]string{conf, "--replay", put(t, dir, "empty.log", nil)}, "the logs have no requests"},
		{[]string{conf, "--replay", filepath.Join(dir, "nowhere")}, "there is no file"},
		{[]string{conf, "--replay", combined, "--field", "address"}, "write what=name"},
		{[]string{conf, "-o", filepath.Join(dir, "nowhere", "weir.yaml")}, "no such file"},
	} {
		var out, errOut bytes.Buffer
		run(append([]string{"convert", "nginx"}, c.args...), nil, &out, &errOut)
		if !strings.Contains(errOut.String(), c.want) {
			t.Errorf("%q: want %q, got %s%s", c.args, c.want, &out, &errOut)
		}
	}
}
