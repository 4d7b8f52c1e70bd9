package examples

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
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

// startNginx returns the URL of a real nginx.
func startNginx(t testing.TB, rate string) string {
	t.Helper()
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
	testrun.FullOnly(t, "beside a real nginx")
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
					t.Errorf("%s, /%s: %d answered, %d waiting, %d refused (%v), want %d, %d, %d", who, c.route,
						got[200],
						got[0], got[503], got, c.ok, c.waits, c.refused)
				}
			}
		}
	}, "PERIOD=10m")
}

// BenchmarkNginxDelays sends the same arrivals to both for half a minute a route, and reports how
// far they agree. It takes a quiet machine. docs/systems.md has a result.
func BenchmarkNginxDelays(b *testing.B) {
	program := build(b, "systems/nginx")
	for _, route := range nginxRoutes {
		b.Run(route, func(b *testing.B) {
			for b.Loop() {
				compareDelays(b, startNginx(b, "10r/s")+"/"+route, launch(b, program)+"/"+route)
			}
		})
	}
}

func compareDelays(b *testing.B, nginx, weir string) {
	type sample struct {
		statuses [2]int
		waits    [2]time.Duration
	}
	samples := make([]sample, 300)
	random := rand.New(rand.NewPCG(1, 2))
	var sent sync.WaitGroup
	arrival := time.Now()
	for i := range samples {
		// Busy times and quiet ones, so that queues fill and empty. The instants do not depend on how long sending
		// takes. With 3 ms between them, both servers get the requests in one order: otherwise two that change places
		// also change their delays.
		mean := float64(87*time.Millisecond) * (1 + math.Sin(float64(i)/20))
		arrival = arrival.Add(3*time.Millisecond + time.Duration(random.ExpFloat64()*mean))
		<-time.After(time.Until(arrival))
		for side, url := range []string{nginx, weir} {
			sent.Go(func() {
				begun := time.Now()
				samples[i].statuses[side] = statusOf(b.Context(), url)
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
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(float64(same), fmt.Sprintf("same-of-%d", len(samples)))
	b.ReportMetric(float64(refused), "refused-by-nginx")
	b.ReportMetric(ms(apart[len(apart)/2]), "ms-apart-median")
	b.ReportMetric(ms(apart[len(apart)*99/100]), "ms-apart-p99")
	b.ReportMetric(ms(apart[len(apart)-1]), "ms-apart-max")
}
