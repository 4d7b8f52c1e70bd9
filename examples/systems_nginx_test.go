package examples

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

var nginxRoutes = []string{"plain", "burst", "nodelay", "delay"}

const nginxConfig = `
daemon off; master_process off; pid nginx.pid; error_log stderr crit; worker_rlimit_nofile 4096;
events { worker_connections 2048; }
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  limit_req_zone $binary_remote_addr zone=plain:1m rate=%[2]s;
  limit_req_zone $binary_remote_addr zone=burst:1m rate=%[2]s;
  limit_req_zone $binary_remote_addr zone=nodelay:1m rate=%[2]s;
  limit_req_zone $binary_remote_addr zone=delay:1m rate=%[2]s;
  server {
    listen %[1]s;
    root html;
    location /plain { limit_req zone=plain; }
    location /burst { limit_req zone=burst burst=20; }
    location /nodelay { limit_req zone=nodelay burst=20 nodelay; }
    location /delay { limit_req zone=delay burst=20 delay=8; }
  }
}
`

// startNginx returns the URL of a real nginx. It skips the test where there is none, unless
// WEIR_REQUIRE_NGINX is set.
func startNginx(t *testing.T, rate string) string {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil && os.Getenv("WEIR_REQUIRE_NGINX") != "" {
		t.Fatal("nginx is not on the PATH, and WEIR_REQUIRE_NGINX is set")
	} else if err != nil {
		t.Skip("nginx is not on the PATH: this test compares with a real one")
	}
	dir, addr := t.TempDir(), freeAddr(t)
	if err := os.Mkdir(filepath.Join(dir, "html"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"nginx.conf": fmt.Sprintf(nginxConfig, addr, rate)}
	for _, route := range nginxRoutes {
		files["html/"+route] = "Hello.\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(nginx, "-p", dir, "-c", "nginx.conf")
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

// atOnce sends n requests at once, and counts the statuses of the first answers. Requests that are
// not answered by then wait for their turn, and leave.
func atOnce(t *testing.T, url string, n, answers int) map[int]int {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	statuses := make(chan int, n)
	for range n {
		go func() { statuses <- statusOf(ctx, url) }()
	}
	counts := map[int]int{}
	for i := range n {
		if i == answers {
			leave()
		}
		counts[<-statuses]++
	}
	return counts
}

// statusOf returns 0 if ctx ended first.
func statusOf(ctx context.Context, url string) int {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return -1
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// At one request a minute nothing returns while the test runs, so every verdict is far from the
// boundary.
func TestNginxDecidesAlike(t *testing.T) {
	onBoth(t, "nginx", func(t *testing.T, url string) {
		nginx := startNginx(t, "1r/m")
		for _, c := range []struct {
			route              string
			ok, waits, refused int
		}{
			{"plain", 1, 0, 24},
			{"burst", 1, 20, 4},
			{"nodelay", 21, 0, 4},
			{"delay", 9, 12, 4},
		} {
			for who, url := range map[string]string{"weir": url, "nginx": nginx} {
				got := atOnce(t, url+"/"+c.route, 25, c.ok+c.refused)
				if got[200] != c.ok || got[0] != c.waits || got[503] != c.refused {
					t.Errorf("%s, /%s: %d answered, %d waiting, %d refused (%v), want %d, %d, %d", who, c.route, got[200], got[0], got[503], got, c.ok, c.waits, c.refused)
				}
			}
		}
	}, "PERIOD=10m")
}

// TestNginxDelaysAlike sends the same arrivals to both for half a minute a route, and prints how
// far they agree. It takes a quiet machine. docs/systems.md has a result.
func TestNginxDelaysAlike(t *testing.T) {
	if os.Getenv("WEIR_REAL_TIME") == "" {
		t.Skip("measures delays for a minute: set WEIR_REAL_TIME=1 on a quiet machine")
	}
	program := build(t, "systems/nginx")
	for _, route := range nginxRoutes {
		t.Run(route, func(t *testing.T) {
			compareDelays(t, startNginx(t, "10r/s")+"/"+route, launch(t, program)+"/"+route)
		})
	}
}

func compareDelays(t *testing.T, nginx, weir string) {
	type sample struct {
		statuses [2]int
		waits    [2]time.Duration
	}
	samples := make([]sample, 300)
	random := rand.New(rand.NewPCG(1, 2))
	var sent sync.WaitGroup
	arrival := time.Now()
	for i := range samples {
		// Busy times and quiet ones, so that queues fill and empty. The instants do not depend on how long sending takes.
		// With 3 ms between them, both servers get the requests in one order: otherwise two that change
		// places also change their delays.
		arrival = arrival.Add(3*time.Millisecond + time.Duration(random.ExpFloat64()*float64(87*time.Millisecond)*(1+math.Sin(float64(i)/20))))
		<-time.After(time.Until(arrival))
		for side, url := range []string{nginx, weir} {
			sent.Go(func() {
				begun := time.Now()
				samples[i].statuses[side] = statusOf(t.Context(), url)
				samples[i].waits[side] = time.Since(begun)
			})
		}
	}
	sent.Wait()
	same, refused, apart := 0, 0, []time.Duration{0}
	for _, s := range samples {
		if s.statuses[0] == http.StatusServiceUnavailable {
			refused++
		}
		if s.statuses[0] == s.statuses[1] {
			same++
			if s.statuses[0] == http.StatusOK {
				apart = append(apart, (s.waits[0] - s.waits[1]).Abs())
			}
		}
	}
	slices.Sort(apart)
	p99 := apart[len(apart)*99/100]
	t.Logf("%d of %d verdicts are equal, of which nginx refused %d; delays differ by %v at the median, %v at the 99th percentile, %v at most",
		same, len(samples), refused, apart[len(apart)/2], p99, apart[len(apart)-1])
	if same*100 < len(samples)*99 || p99 > 20*time.Millisecond {
		t.Error("want 99% of verdicts equal and delays within 20 ms")
	}
}
