package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// These tests take real time, and programs of others: half a minute with -parallel 20, since they
// mostly wait.

// tally is what a run against a real server came to.
type tally struct {
	ok, denied, early, failed atomic.Int64
	mu                        sync.Mutex
	at                        []time.Time // of denials
}

// run sends requests as fast as the client lets workers do, until d has passed.
func (y *tally) run(t *testing.T, url string, workers int, d time.Duration, o client.Options) {
	t.Helper()
	base := &http.Transport{MaxIdleConnsPerHost: workers}
	defer base.CloseIdleConnections()
	o.Base = base
	var answered atomic.Bool
	o.Observe = func(e client.Event) {
		if e.Kind == client.Limited {
			y.denied.Add(1)
			if answered.Load() {
				y.early.Add(1)
			}
			y.mu.Lock()
			y.at = append(y.at, time.Now())
			y.mu.Unlock()
		}
	}
	c := &http.Client{Transport: client.MustNew(o)}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
				response, err := c.Do(r)
				if err != nil {
					y.failed.Add(1)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode == 200 {
					y.ok.Add(1)
				}
				answered.Store(true)
			}
		})
	}
	wg.Wait()
}

func TestRealSockets(t *testing.T) {
	testrun.FullOnly(t, "real time")
	t.Parallel()
	rate := limits.Per(100, 5*time.Second)
	for _, test := range []struct {
		limit  limits.Limit
		format headers.Format
	}{
		{limits.TokenBucket(rate, 40), headers.IETF},
		{limits.LeakyQueue(rate, 40), headers.IETF},
		{limits.FixedWindow(rate), headers.Draft7},
		{limits.SlidingWindow(rate), headers.IETF},
		{limits.SlidingLog(rate), headers.Draft6},
		{limits.AnchoredWindow(rate), headers.Discord},
	} {
		t.Run(test.limit.Algorithm().String(), func(t *testing.T) {
			t.Parallel()
			limiter := nethttp.MustNew(nethttp.Config{
				Rules:   []nethttp.Rule{{Name: "all", Limit: test.limit, Key: keyfuncs.Constant[*http.Request]("all")}},
				Headers: headers.Options{Formats: []headers.Format{test.format}}, MaxWaiting: 100,
			})
			server := httptest.NewServer(limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			})))
			defer server.Close()
			var y tally
			y.run(t, server.URL, 8, 10*time.Second, client.Options{MaxWait: time.Minute})
			most := mostOf(test.limit, 2)
			t.Logf("%d allowed, %d denied; %d in two windows", y.ok.Load(), y.denied.Load(), most)
			if y.early.Load() > 0 {
				t.Errorf("%d requests were denied", y.early.Load())
			}
			if y.ok.Load() < most/2 {
				t.Errorf("%d of %d were used", y.ok.Load(), most)
			}
		})
	}
}

const expressProgram = `
const express = require('express')
const { rateLimit } = require('express-rate-limit')
const app = express()
for (const path of ['draft-6', 'draft-7', 'draft-8', 'capped', 'silent']) {
  app.use('/' + path, rateLimit({ windowMs: 5000, limit: 50, legacyHeaders: false,
    standardHeaders: path.startsWith('draft') ? path : false, identifier: 'all' }),
    (req, res) => res.send('hello'))
}
const server = app.listen(0, '127.0.0.1', () => {
  console.log('listening on ' + server.address().port)
})
`

func TestExpressRateLimit(t *testing.T) {
	testrun.FullOnly(t, "express-rate-limit, which npm installs")
	t.Parallel()
	dir := t.TempDir()
	install := testrun.Command(t, "npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix",
		dir, "express@5.3.0", "express-rate-limit@8.7.5")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "server.js"), []byte(expressProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	node := testrun.Command(t, "node", "server.js")
	node.Dir = dir
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Process.Kill(); node.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	_, port, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("node said %q, %v", line, err)
	}
	url := "http://127.0.0.1:" + port + "/"
	for _, draft := range []string{"draft-6", "draft-7", "draft-8"} {
		t.Run(draft, func(t *testing.T) {
			t.Parallel()
			var y tally
			y.run(t, url+draft, 8, 14*time.Second, client.Options{MaxWait: time.Minute})
			t.Logf("%d allowed, %d denied, of 150 in three windows", y.ok.Load(), y.denied.Load())
			if y.early.Load() > 0 || y.ok.Load() < 75 {
				t.Errorf("%d allowed, %d denied after the first answer", y.ok.Load(), y.early.Load())
			}
		})
	}
	t.Run("without fields, with a cap", func(t *testing.T) {
		t.Parallel()
		var y tally
		// Its window begins when the first request arrives, which takes longer than for
		// later ones: a tenth of a second is to spare.
		y.run(t, url+"capped", 8, 14*time.Second, client.Options{MaxWait: time.Minute,
			Limit: limits.SlidingLog(limits.Per(50, 5100*time.Millisecond))})
		t.Logf("%d allowed, %d denied", y.ok.Load(), y.denied.Load())
		if y.denied.Load() > 0 || y.ok.Load() < 50 {
			t.Errorf("%d allowed, %d denied", y.ok.Load(), y.denied.Load())
		}
	})
	t.Run("without fields, without a cap", func(t *testing.T) {
		t.Parallel()
		wantBudget(t, url+"silent")
	})
}

// wantBudget checks that a server which says little is not hammered.
func wantBudget(t *testing.T, url string) {
	t.Helper()
	var y tally
	y.run(t, url, 8, 12*time.Second, client.Options{MaxWait: 5 * time.Second, Pace: client.Off})
	t.Logf("%d allowed, %d denied", y.ok.Load(), y.denied.Load())
	if y.denied.Load() == 0 || y.denied.Load() > 12*8 {
		t.Errorf("%d denied in 12 seconds, want a few for each backoff", y.denied.Load())
	}
}

const nginxConfig = `
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5;
  limit_req_zone $binary_remote_addr zone=capped:1m rate=20r/s;
  limit_req_zone $binary_remote_addr zone=silent:1m rate=20r/s;
  limit_req_status 429;
  server {
    listen %s;
    location /capped { limit_req zone=capped burst=20 nodelay; root html; }
    location /silent { limit_req zone=silent burst=20 nodelay; root html; }
  }
}
`

// startNginx returns the URL of a real nginx that listens at the address in config, and has these
// files.
func startNginx(t *testing.T, config string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(dir, "html"), 0o777)
	os.Chmod(dir, 0o755)
	texts := map[string]string{"nginx.conf": fmt.Sprintf(config, addr)}
	for name, text := range files {
		texts[filepath.Join("html", name)] = text
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := testrun.Command(t, "nginx", "-p", dir, "-c", "nginx.conf")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	return "http://" + addr + "/"
}

func TestNginx(t *testing.T) {
	testrun.FullOnly(t, "real time, beside a real nginx")
	t.Parallel()
	url := startNginx(t, nginxConfig, map[string]string{"capped": "hello", "silent": "hello"})
	t.Run("with a cap", func(t *testing.T) {
		t.Parallel()
		var y tally
		// nginx counts by the millisecond, and would deny what comes a millisecond early.
		y.run(t, url+"capped", 8, 6*time.Second, client.Options{MaxWait: time.Minute,
			Limit: limits.TokenBucket(limits.PerSecond(20), 19)})
		t.Logf("%d allowed, %d denied", y.ok.Load(), y.denied.Load())
		if y.denied.Load() > 0 || y.ok.Load() < 60 {
			t.Errorf("%d allowed, %d denied", y.ok.Load(), y.denied.Load())
		}
	})
	t.Run("without a cap", func(t *testing.T) {
		t.Parallel()
		wantBudget(t, url+"silent")
	})
}

const nginxCacheConfig = `
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5;
  proxy_cache_path cache keys_zone=pages:1m;
  server {
    listen %%s;
    location / {
      proxy_pass %s;
      proxy_cache pages;
      add_header X-Cache-Status $upstream_cache_status;
    }
  }
}
`

// nginx stores an answer with the fields of the client that asked first, and sends no Age.
func TestWhatACacheToldAnotherClientHoldsNothingBack(t *testing.T) {
	t.Parallel()
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
		Key: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil },
	}}})
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
	}
	site := httptest.NewServer(limiter.Handler(http.HandlerFunc(page)))
	t.Cleanup(site.Close)
	url := startNginx(t, fmt.Sprintf(nginxCacheConfig, site.URL), nil)
	other, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	other.Body.Close()
	if left := other.Header.Get("RateLimit"); left != `"per-client";r=0;t=60` {
		t.Fatalf("the other client has %s", left)
	}
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	c := &http.Client{Transport: client.MustNew(client.Options{Base: base})}
	for i := range 12 {
		r, _ := http.NewRequest("GET", url, nil)
		r.Header.Set("Authorization", "Bearer mine")
		response, err := c.Do(r)
		if err != nil {
			t.Errorf("request %d: %v", i, err)
			continue
		}
		response.Body.Close()
		if status, h := response.StatusCode, response.Header; status != 200 ||
			h.Get("RateLimit") != `"per-client";r=0;t=60` || h.Get("X-Cache-Status") != "HIT" {
			t.Errorf("request %d: %d with %v", i, status, h)
		}
	}
}
