package examples

import (
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// The limit is 10 a minute. The crawler sends what it may at once, keeps two in reserve, and
// would then wait for longer than it is told to here. Nothing of it is denied.
func TestClient(t *testing.T) {
	at := start(t, "quickstart")
	crawl := func(pages string) (string, error) {
		cmd := testrun.Command(t, build(t, "client"))
		cmd.Env = append(os.Environ(), "URL="+at+"/", "PAGES="+pages, "MAX_WAIT=10ms")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := crawl("3"); err != nil || !strings.Contains(out, "3 pages, 0 denied") {
		t.Fatalf("%v, said %q", err, out)
	}
	out, err := crawl("1000")
	if err == nil || !strings.Contains(out, " 0 denied") || !strings.Contains(out, "held back") ||
		!strings.Contains(out, "RateLimit") {
		t.Errorf("%v, said %q, want it to stop before it is denied", err, out)
	}
	// A client that does not look is denied.
	denied(t, func() answer { return send(t, "GET", at+"/", "") })
}
