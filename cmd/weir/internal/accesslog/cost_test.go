package accesslog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// Lines that have what parsers look for, again and again. A part that is looked at once for each
// part before it makes a line that is eight times as long take sixty times as long.
func TestALineTakesTimeByItsLength(t *testing.T) {
	const size, longer, most = 16 << 10, 8, 24
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
			// took returns the least time of several: a pause of the machine is in none of them.
			took := func(size, times int) time.Duration {
				long := strings.Replace(line, "*", strings.Repeat(part, size/len(part)), 1) + "\n"
				least := time.Hour
				for range times {
					start := time.Now()
					tenant := accesslog.Options{Extras: []string{"header.X-Tenant"}}
					read(t, strings.Replace(caddy, "*", "", 1)+"\n"+long, tenant)
					read(t, whole+"\n"+long, accesslog.Options{})
					least = min(least, time.Since(start))
				}
				return least
			}
			short := took(size, 5)
			for times := 3; ; times *= 3 {
				long := took(longer*size, times)
				if long <= most*short {
					break
				}
				if times > 27 {
					t.Errorf("%q of %q: %v for %d bytes, %v for %d", part, line, short, size, long, longer*size)
					break
				}
				short = max(short, took(size, 1)) // the machine may have become slower
			}
		}
	}
}
