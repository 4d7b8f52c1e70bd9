package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// A team spends money on two models, by the tokens that a real Envoy reads in their answers, until the
// budget is over for both. Prices change while it runs.
func TestARealEnvoyChargesTokensToABudget(t *testing.T) {
	path, dir := testrun.Program(t, "envoy"), t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("limits.yaml", example(t, "money/limits/limits.yaml", "requests_per_unit: 5000000", "requests_per_unit: 1000"))
	write("prices.yaml", example(t, "money/limits/prices.yaml"))
	weir := start(t, Config{Paths: []string{dir}, Drain: time.Second})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"usage": {"prompt_tokens": 1001, "completion_tokens": 2000, "total_tokens": 3001}}`)
	}))
	t.Cleanup(app.Close)
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s := &system{t: t, dir: t.TempDir(), url: "http://" + address}
	s.write("envoy.yaml", example(t, "money/envoy.yaml", "port_value: 8000", "port_value: "+portOf(address),
		"port_value: 9000", "port_value: "+portOf(app.Listener.Addr().String()),
		"port_value: 8081", "port_value: "+portOf(weir.grpc)))
	s.run(path, "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")

	left := func() string {
		response, err := http.Post("http://"+weir.check+"/json", "application/json", strings.NewReader(
			`{"domain": "models", "descriptors": [{"entries": [{"key": "team", "value": "red"}], "hitsAddend": "0"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		_, left, _ := strings.Cut(strings.ReplaceAll(string(text), " ", ""), `"limitRemaining":`)
		left, _, _ = strings.Cut(left, ",")
		return left
	}
	spends := func(model string, status int, want string) {
		t.Helper()
		r, _ := http.NewRequest("GET", s.url+"/", nil)
		r.Header.Set("X-Team", "red")
		r.Header.Set("X-Model", model)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s: %d, want %d", model, response.StatusCode, status)
		}
		for end := time.Now().Add(time.Minute); left() != want; time.Sleep(time.Millisecond) { // Envoy charges late
			if time.Now().After(end) {
				t.Fatalf("%s: %q units are left, want %q", model, left(), want)
			}
		}
	}
	spends("large", 200, "774") // 1,001 tokens at 0.025 are 26, 2,000 at 0.1 are 200
	spends("small", 200, "755") // 1,001 at 0.002 are 3, 2,000 at 0.008 are 16
	write("prices.yaml", example(t, "money/limits/prices.yaml", "large-output: 0.1", "large-output: 0.3"))
	weir.reload <- struct{}{}
	spends("large", 200, "129")
	spends("large", 200, "") // it is over: what a request costs is known at its end
	for range 3 {
		spends("small", 429, "")
	}
}
