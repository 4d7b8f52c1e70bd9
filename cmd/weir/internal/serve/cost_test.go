package serve

import (
	"context"
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

// shop is weir and an Envoy in front of a program whose answers tell what they have cost.
type shop struct {
	*system
	limits string        // their file
	came   chan struct{} // a request that waits
}

func newShop(t *testing.T, redis string, changes ...string) *shop {
	t.Helper()
	path := testrun.Program(t, "envoy")
	s := &shop{&system{t: t, dir: t.TempDir()}, "", make(chan struct{})}
	s.limits = filepath.Join(s.dir, "limits.yaml")
	s.allow(1000)
	s.weir = start(t, Config{Paths: []string{s.limits}, Drain: time.Second, Redis: redis, Budget: time.Minute})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			s.came <- struct{}{}
			<-r.Context().Done()
			return
		}
		if cost := r.URL.Query().Get("cost"); cost != "" {
			w.Header().Set("X-Cost", cost)
		}
		fmt.Fprintln(w, "Hello.")
	}))
	t.Cleanup(app.Close)
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + address
	s.write("envoy.yaml", example(t, "cost/envoy.yaml", append(changes,
		"port_value: 8000", "port_value: "+portOf(address),
		"port_value: 9000", "port_value: "+portOf(app.Listener.Addr().String()),
		"port_value: 8081", "port_value: "+portOf(s.weir.grpc))...))
	s.run(path, "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	return s
}

// allow writes the file of the example, with units a year: no test waits for the turn of an hour.
func (s *shop) allow(units int) {
	s.t.Helper()
	text := example(s.t, "cost/limits.yaml", "unit: hour", "unit: year", "1000", fmt.Sprint(units))
	if err := os.WriteFile(s.limits, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// asks sends a request, and wants its status.
func (s *shop) asks(query string, status int) {
	s.t.Helper()
	r, _ := http.NewRequest("GET", s.url+"/?"+query, nil)
	r.Header.Set("X-User", "ann")
	r.Header.Set("X-Cost", "500") // of a client, which is no answer
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode != status || response.Header.Get("X-Cost") != "" {
		s.t.Errorf("%q: %d, want %d: %v", query, response.StatusCode, status, response.Header)
	}
}

// visits sends a request, and reads its answer. At /wait it leaves before that.
func (s *shop) visits(path string) {
	s.t.Helper()
	ctx, leave := context.WithCancel(s.t.Context())
	defer leave()
	if path == "/wait" {
		go func() {
			<-s.came
			leave()
		}()
	}
	r, _ := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	r.Header.Set("X-User", "ann")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			s.t.Fatal(err)
		}
		return
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// left returns how many units a user has left.
func (s *shop) left(user string) string {
	s.t.Helper()
	response, err := http.Post("http://"+s.weir.check+"/json", "application/json", strings.NewReader(
		`{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "`+user+`"}], "hitsAddend": "0"}]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	_, left, _ := strings.Cut(strings.ReplaceAll(string(text), " ", ""), `"limitRemaining":`)
	left, _, _ = strings.Cut(left, ",")
	return left
}

// has waits until a user has so many units left: Envoy charges late.
func (s *shop) has(user, want string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); s.left(user) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s has %q units left, want %q", user, s.left(user), want)
		}
	}
}

// An answer costs what its header field says.
func TestARealEnvoyChargesWhatAHeaderFieldTells(t *testing.T) {
	testrun.Program(t, "envoy")
	for _, where := range []string{"memory", "Redis"} {
		t.Run(where, func(t *testing.T) {
			url := ""
			if where == "Redis" {
				url = redisServer(t)
			}
			s := newShop(t, url)
			for _, step := range []struct{ query, left string }{
				{"cost=7", "993"}, {"", "992"}, {"cost=100", "892"},
				{"cost=many", "891"}, {"cost=0", "891"}, {"cost=2.9", "889"},
			} {
				s.asks(step.query, 200)
				s.has("ann", step.left)
			}
			s.visits("/wait")
			s.has("ann", "888") // what an answer costs that does not tell

			s.asks("cost=889", 200) // over is over at the end
			s.has("ann", "")
			for range 5 {
				s.asks("cost=50", 429)
			}
			s.allow(2000)
			s.weir.reload <- struct{}{}
			s.has("ann", "999") // denied requests have cost nothing
		})
	}
}

// Why the guide has two filters more: with %RESP% alone a client that leaves before the answer pays
// nothing.
func TestARealEnvoyChargesAFieldOfTheAnswerAlone(t *testing.T) {
	const done = "- apply_on_stream_done: true # what the answer has cost"
	const more = "- {apply_on_stream_done: true, " +
		"actions: [{generic_key: {descriptor_key: user, descriptor_value: ended}}]}\n                                "
	s := newShop(t, "", "%DYNAMIC_METADATA(cost:units)%", "%RESP(x-cost)%",
		"remove: true", "remove: false", done, more+done)
	for i, step := range []struct{ path, left string }{
		{"/?cost=7", "993"}, {"/", "993"}, {"/?cost=many", "993"}, {"/wait", "993"}, {"/?cost=3", "990"},
	} {
		s.visits(step.path)
		s.has("ended", fmt.Sprint(999-i)) // by the same message
		s.has("ann", step.left)
	}
}
