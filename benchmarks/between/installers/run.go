package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Request is what the limiter made of one request.
type request struct {
	at     time.Duration // since the start
	end    time.Duration // of the answer
	path   string
	status int    // 0: its client left before
	told   string // Retry-After
}

// Report is what an installer did.
type report struct {
	requests []request
	atOnce   int           // most requests in flight
	took     time.Duration // from the first request to the last answer
	said     string        // the last line of its output
	failed   string        // how it failed, with that line
}

func (r *report) denials() (n int) {
	for _, q := range r.requests {
		if q.status == http.StatusTooManyRequests || q.status == http.StatusServiceUnavailable {
			n++
		}
	}
	return n
}

// cell returns what happened, the seconds, the denials, and the denials for each of n requests.
func (r *report) cell(n int) string {
	end := "ok"
	if r.failed != "" {
		end = "**fails**"
	}
	if d := r.denials(); d > 0 {
		return fmt.Sprintf("%s, %.1f s, %d (%.1f)", end, r.took.Seconds(), d, float64(d)/float64(n))
	}
	return fmt.Sprintf("%s, %.1f s, 0", end, r.took.Seconds())
}

func (r *report) missing() (paths []string) {
	for _, q := range r.requests {
		if q.status == http.StatusNotFound {
			paths = append(paths, q.path)
		}
	}
	return paths
}

// log prints served/denied for each second, and when each denied request came, what it was told,
// and when it came again.
func (r *report) log(name string) {
	var seconds [][2]int
	told := map[string][]string{}
	for _, q := range r.requests {
		for len(seconds) <= int(q.at.Seconds()) {
			seconds = append(seconds, [2]int{})
		}
		denied := 0
		if q.status == http.StatusTooManyRequests || q.status == http.StatusServiceUnavailable {
			denied = 1
		}
		seconds[int(q.at.Seconds())][denied]++
		if denied > 0 || told[q.path] != nil {
			told[q.path] = append(told[q.path], fmt.Sprintf("%.2f:%s", q.at.Seconds(), q.told))
		}
	}
	var b strings.Builder
	for i, s := range seconds {
		if s != [2]int{} {
			fmt.Fprintf(&b, " %d:%d/%d", i, s[0], s[1])
		}
	}
	log.Printf("%s: %.1f s, %d at once, failed %q:%s", name, r.took.Seconds(), r.atOnce, r.failed, &b)
	if len(told) == 0 && len(r.requests) < 100 {
		for _, q := range r.requests {
			log.Printf("  %.2f %s %d", q.at.Seconds(), q.path, q.status)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(told)) {
		log.Printf("  %s %s", path, strings.Join(told[path], " "))
	}
}

// run runs the command against packages, limited by address.
func run(packages http.Handler, a answer, command []string) (*report, error) {
	handler := packages
	if a.limit != (limits.Limit{}) {
		limiter, err := nethttp.New(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: "per-client", Limit: a.limit, Key: keyfuncs.Address(keyfuncs.Peer),
			}},
			Headers: a.headers,
		})
		if err != nil {
			return nil, err
		}
		handler = limiter.Handler(packages)
		if a.name == busy {
			held := limiter.Decide(&http.Request{Method: "GET", URL: &url.URL{Path: "/"},
				RemoteAddr: "127.0.0.1:1"})
			defer held.End(core.Result{})
		}
	}
	w := &watch{next: handler}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: w}
	go server.Serve(listener)
	defer server.Close()
	home, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)

	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Dir = filepath.Join(home, "project")
	if err := os.Mkdir(process.Dir, 0o700); err != nil {
		return nil, err
	}
	process.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home,
		"URL=http://"+listener.Addr().String())
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	process.WaitDelay = time.Second
	w.start = time.Now()
	output, err := process.CombinedOutput()
	r := &report{}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	r.said = lines[len(lines)-1]
	if err != nil {
		r.failed = err.Error() + ": " + r.said
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.requests, r.atOnce = slices.Clone(w.requests), w.atOnce
	if len(r.requests) > 0 {
		last := slices.MaxFunc(r.requests, func(a, b request) int { return cmp.Compare(a.end, b.end) })
		r.took = last.end - r.requests[0].at
	}
	return r, nil
}

// Watch notes what next answers.
type watch struct {
	next  http.Handler
	start time.Time

	mu               sync.Mutex
	requests         []request
	inFlight, atOnce int
}

func (w *watch) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.inFlight++
	w.atOnce = max(w.atOnce, w.inFlight)
	i := len(w.requests)
	w.requests = append(w.requests,
		request{at: time.Since(w.start), path: r.Method + " " + r.URL.Path})
	w.mu.Unlock()
	status := &statusWriter{ResponseWriter: rw, status: http.StatusOK}
	w.next.ServeHTTP(status, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
	q := &w.requests[i]
	q.end, q.status, q.told = time.Since(w.start), status.status, rw.Header().Get("Retry-After")
}

// StatusWriter notes the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
