package keyfuncs_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
)

const nginxConfig = `
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server {
    listen %s;
    %s
  }
}
`

// startNginx returns the URL of a real nginx that serves as a part of its configuration says.
func startNginx(t *testing.T, serves string) string {
	t.Helper()
	dir := t.TempDir()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, nginxConfig, addr, serves),
		0o644); err != nil {
		t.Fatal(err)
	}
	cmd := testrun.Command(t, "nginx", "-p", dir, "-c", "nginx.conf")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return "http://" + addr
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// get returns the body of an answer to a request with lines of X-Forwarded-For.
func get(t *testing.T, url string, lines ...string) string {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header[xff] = lines
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// This is what everybody tries first: curl on the machine of nginx, with the row of the README.
func TestARequestFromTheMachineOfNginxHasAnAddress(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.MustTrustedProxies("127.0.0.1", "::1"))
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k, err := key(r)
		fmt.Fprint(w, k, " ", err)
	}))
	defer app.Close()
	url := startNginx(t, "location / { proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_pass "+
		app.URL+"; }")
	if got := get(t, url); got != "127.0.0.1 <nil>" {
		t.Errorf("got %s", got)
	}
	if got := get(t, url, "203.0.113.7"); got != "203.0.113.7 <nil>" { // of another proxy on this machine
		t.Errorf("forwarded once more: got %s", got)
	}
}

func TestNginxFindsTheSameClient(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("127.0.0.1", "10.0.0.0/8")
	url := startNginx(t, "set_real_ip_from 127.0.0.1; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; "+
		"real_ip_recursive on;"+
		"location / { return 200 $remote_addr; }")
	for _, list := range []string{
		"127.0.0.1", "10.0.0.2", "10.0.0.3, 10.0.0.2", "10.0.0.3,127.0.0.1, 10.0.0.2", "203.0.113.7",
		"203.0.113.7, 10.0.0.2",
		"10.0.0.9, 203.0.113.7", "127.0.0.1, 203.0.113.7, 10.0.0.2", "198.51.100.1, 203.0.113.7",
	} {
		want := get(t, url, list)
		r := request("127.0.0.1:80", xff+": "+list)
		if got, err := source(r); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v; nginx finds %s", list, got, err, want)
		}
	}
}
