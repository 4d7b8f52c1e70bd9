package serve

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// model says what the next request of a client is answered, by limits that do not turn while a test runs.
type model struct {
	mu    sync.Mutex
	left  map[string]int
	limit int
}

func (m *model) ask(client string) (status, left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used, ok := m.left[client]
	if !ok {
		used = m.limit
	}
	if used == 0 {
		return 429, 0
	}
	m.left[client] = used - 1
	return 200, used - 1
}

const envoyClients, envoyLimit = 40, 200

// Ten thousand requests by each filter, over HTTP/1.1 and HTTP/2, have the statuses and the numbers that the model says. A client
// is one goroutine, so its requests are in order.
func TestARealEnvoyIsAnsweredExactly(t *testing.T) {
	testrun.FullOnly(t, "sends 40,000 requests")
	envoy := testrun.Program(t, "envoy")
	for _, filter := range []string{"ratelimit", "ext_authz"} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", filter, h2), func(t *testing.T) {
				s := setUp(t, 0, "weir.yaml", "limits.yaml")
				s.weir.end()
				policy := s.write("weir.yaml", fmt.Sprintf(
					"version: 1\nrules:\n  - {name: per-client, key: header X-Client, limit: %d/365d}\n", envoyLimit))
				limits := s.write("limits.yaml", fmt.Sprintf(
					"domain: shop\ndescriptors:\n  - {key: client, rate_limit: {unit: year, requests_per_unit: %d}}\n",
					envoyLimit))
				s.weir = start(t, Config{Paths: []string{policy, limits}, Drain: time.Second})
				other := map[string]string{"ratelimit": "ext_authz", "ext_authz": "ratelimit"}[filter]
				s.run(envoy, "-c", s.envoyWithout(other), "--use-dynamic-base-id", "--concurrency", "2", "-l", "error")
				tenThousand(t, s, filter, h2)
			})
		}
	}
}

// envoyWithout writes the configuration of the guide without a filter, by the ports of the service that runs now. Clients
// name themselves.
func (s *system) envoyWithout(filter string) string {
	s.t.Helper()
	text := s.files["envoy.yaml"]
	text = strings.Replace(text, "{remote_address: {}}",
		"{request_headers: {header_name: x-client, descriptor_key: client}}", 1)
	before, after, _ := strings.Cut(text, "                        - actions: [{header_value_match: ")
	_, after, _ = strings.Cut(after, "\n")
	text = before + after
	from := strings.Index(text, "                  - name: envoy.filters.http."+filter)
	to := from + 1 + strings.Index(text[from+1:], "                  - name: ")
	_, grpc, _ := net.SplitHostPort(s.weir.grpc)
	return s.write("envoy.yaml", s.ports.Replace(strings.Replace(text[:from]+text[to:], "8081", grpc, 1)))
}

func tenThousand(t *testing.T, s *system, filter string, h2 bool) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: envoyClients}}
	defer client.CloseIdleConnections()
	m := &model{left: make(map[string]int), limit: envoyLimit}
	var wrong atomic.Int64
	var group sync.WaitGroup
	for i := range envoyClients {
		group.Go(func() {
			name := "c" + strconv.Itoa(i)
			for range 250 {
				r, _ := http.NewRequest("GET", s.url+"/", nil)
				r.Header.Set("X-Client", name)
				response, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				status, left := m.ask(name)
				got := response.Header.Get("X-Ratelimit-Remaining")
				if filter == "ext_authz" {
					_, rest, _ := strings.Cut(response.Header.Get("RateLimit"), ";r=")
					got, _, _ = strings.Cut(rest, ";")
				}
				if response.StatusCode != status || got != strconv.Itoa(left) {
					if wrong.Add(1) < 5 {
						t.Errorf("%s: %d with %q left, want %d with %d: %v",
							name, response.StatusCode, got, status, left, response.Header)
					}
				}
				for len(s.passed) > 500 {
					<-s.passed
				}
			}
		})
	}
	group.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of 10,000 answers are wrong", n)
	}
}

// While the service is killed and started again, each request is answered: as the failure mode of Envoy says while it is away, and by
// its limits before and after.
func TestAServiceThatIsKilledUnderLoadHangsNothing(t *testing.T) {
	testrun.FullOnly(t, "kills a process under load")
	envoy := testrun.Program(t, "envoy")
	s := setUp(t, 0, "weir.yaml", "limits.yaml")
	s.weir.end()
	weir := filepath.Join(s.dir, "weir")
	if out, err := testrun.Command(t, "go", "build", "-o", weir, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	limits := s.write("limits.yaml",
		"domain: shop\ndescriptors:\n  - {key: client, rate_limit: {unit: year, requests_per_unit: 5}}\n")
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *exec.Cmd {
		cmd := testrun.Command(t, weir, "serve", "--check", "", "--operator", "", "--grpc", address, limits)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
				return cmd
			}
		}
	}
	running := begin()
	s.weir.grpc = address
	text, err := os.ReadFile(s.envoyWithout("ext_authz"))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("timeout: 1s"), []byte("timeout: 0.2s"), 1)
	s.run(envoy, "-c", s.write("envoy.yaml", string(text)), "--use-dynamic-base-id", "--concurrency", "2", "-l", "error")

	var answers [600]atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r, _ := http.NewRequest("GET", s.url+"/", nil)
				r.Header.Set("X-Client", fmt.Sprintf("%d-%d", i, n/10))
				client := http.Client{Timeout: 10 * time.Second} // far above that of Envoy
				response, err := client.Do(r)
				if err != nil {
					t.Errorf("a request hangs: %v", err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				answers[response.StatusCode].Add(1)
				for len(s.passed) > 500 {
					<-s.passed
				}
			}
		})
	}
	atLeast := func(status int, n int64) { // polls for answers of a real Envoy
		for base := answers[status].Load(); answers[status].Load() < base+n && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	for range 3 {
		atLeast(200, 100)
		atLeast(429, 100)
		running.Process.Kill()
		running.Wait()
		atLeast(500, 20) // failure_mode_deny
		running = begin()
	}
	atLeast(200, 100)
	close(stop)
	group.Wait()
	running.Process.Kill()
	running.Wait()
	for status := range answers {
		if n := answers[status].Load(); n > 0 && status != 200 && status != 429 && status != 500 {
			t.Errorf("%d answers have the status %d", n, status)
		}
	}
}
