package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/convert"
	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
)

// At 1r/m a unit returns after 62.5 seconds.
func TestAConvertedPolicyIsServed(t *testing.T) {
	result := convert.Nginx("nginx.conf", []byte(`
		geo $limited { default 1; 198.51.100.0/24 0; }
		map $limited $client { 0 ""; 1 $binary_remote_addr; }
		limit_req_zone $client zone=log-in:1m rate=1r/m;
		limit_req_zone $http_x_tenant zone=tenant:1m rate=1r/m;
		server {
			location / { }
			location = /login { limit_req zone=log-in burst=2 nodelay; }
		}
		server { server_name api.example; location /v1/ { limit_req zone=tenant; } }`), nginxconf.Files{})
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, result.Policy, 0o600); err != nil {
		t.Fatal(err)
	}
	weir := start(t, Config{Paths: []string{file}, Drain: time.Second})
	for _, c := range []struct {
		n                          int // how many of five checks are allowed; 9: all
		host, path, client, tenant string
	}{
		{3, "shop.example", "/login", "203.0.113.7", ""},
		{0, "other.example", "/login", "203.0.113.7", ""},
		{9, "shop.example", "/", "203.0.113.7", ""},
		{9, "api.example", "/login", "203.0.113.8", ""},
		{9, "shop.example", "/login", "198.51.100.7", ""},
		{1, "api.example", "/v1/x", "203.0.113.7", "acme"},
		{0, "api.example", "/v1/", "203.0.113.8", "acme"},
		{9, "api.example", "/v1/x", "203.0.113.7", ""},
		{9, "shop.example", "/v1/x", "203.0.113.7", "acme"},
	} {
		for i := range 5 {
			status, _ := ask(t, http.DefaultClient, "http://"+weir.check+"/check", func(h http.Header) {
				h.Set("X-Forwarded-Method", "POST")
				h.Set("X-Forwarded-Host", c.host)
				h.Set("X-Forwarded-Uri", c.path)
				h.Set("X-Forwarded-For", c.client)
				if c.tenant != "" {
					h.Set("X-Tenant", c.tenant)
				}
			})
			want := http.StatusNoContent
			if i >= c.n {
				want = http.StatusTooManyRequests
			}
			if status != want {
				t.Errorf("%+v: check %d is answered %d, want %d\n%s", c, i+1, status, want, result.Policy)
			}
		}
	}
}
