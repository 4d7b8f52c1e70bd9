package accesslog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// Lines of 250 KB that have what parsers look for, again and again. A part that is looked at once for each part
// before it makes a line take ten seconds and more.
func TestNoLineTakesLong(t *testing.T) {
	const size, most = 250 << 10, 3 * time.Second
	whole := `192.0.2.1 - - [24/Feb/2024:12:00:59 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`
	caddy := `{"ts":1700000000.5,"msg":"handled request","request":{"remote_ip":"192.0.2.1",` +
		`"method":"GET","uri":"/","headers":{"X-Tenant":["a"*]}},"status":200}`
	for _, line := range []string{
		"*", `192.0.2.1 - * [24/Feb/2024:12:00:59 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`,
		`192.0.2.1 - - [24/Feb/2024:12:00:59 +0000] "GET /* HTTP/1.1" 200 5 "-" "-"`, caddy,
	} {
		for _, part := range []string{
			`a] "`, ` [x] "`, `"`, `""`, `\"`, `" 2 `, `a, `, `"a",`, `,"a"`, `{"a":`, "\t", " ",
		} {
			long := strings.Replace(line, "*", strings.Repeat(part, size/len(part)), 1) + "\n"
			start := time.Now()
			tenant := accesslog.Options{Extras: []string{"header.X-Tenant"}}
			read(t, strings.Replace(caddy, "*", "", 1)+"\n"+long, tenant)
			read(t, whole+"\n"+long, accesslog.Options{})
			if took := time.Since(start); took > most {
				t.Errorf("%q of %q: %v", part, line, took)
			}
		}
	}
}
