// Telemetry puts weir before an endpoint of OTLP or Sentry, runs a client against it, and prints how
// many of its batches have arrived: two rows of a Markdown table, for denials by 429 and by 503.
//
//	telemetry -client opentelemetry-sdk -release 1.45.2 -kind otlp -- python client.py
//
// The client finds the address in URL and PORT. It sends ten batches, one a second, and ends. The
// first has the word batch-0 in it, the last batch-9. For Sentry it sends as many transactions, with
// trade-0 to trade-9, and the limit is one of transactions alone. The limit is used up when the first
// request arrives, and whole again after the wait that it tells.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

const batches = 10

var options struct {
	client, release, kind string
	named                 bool
	stop                  time.Duration
}

// Case is what weir tells.
type Case struct {
	window time.Duration
	bare   bool // without Retry-After
	as503  bool
}

var waits = []Case{
	{window: time.Second}, {window: 5 * time.Second}, {window: time.Minute}, {window: time.Hour},
	{window: 5 * time.Second, bare: true},
}

func main() {
	flag.StringVar(&options.client, "client", "", "name of the client, as its registry has it")
	flag.StringVar(&options.release, "release", "", "release of the client")
	flag.StringVar(&options.kind, "kind", "otlp", "otlp, sentry, prometheus or loki")
	flag.BoolVar(&options.named, "named", false, "name the category in X-Sentry-Rate-Limits")
	flag.DurationVar(&options.stop, "stop", 90*time.Second, "when a client that has not ended is stopped")
	head := flag.Bool("head", false, "print the head of the table, and run nothing")
	flag.Parse()
	if *head {
		fmt.Print("| client | release | denied by |")
		for _, c := range waits {
			fmt.Printf(" %s |", c.told())
		}
		fmt.Println("\n|---|---|---|---|---|---|---|---|")
		return
	}
	for _, as503 := range []bool{false, true} {
		row, err := runAll(as503, flag.Args())
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", options.client, err)
			os.Exit(1)
		}
		by := "429"
		if as503 {
			by = "503"
		}
		if options.named {
			by += ", X-Sentry-Rate-Limits"
		}
		fmt.Println("|", strings.Join(append([]string{options.client, options.release, by}, row...), " | "), "|")
	}
}

func (c Case) told() string {
	if c.bare {
		return fmt.Sprintf("no Retry-After, for %.0f s", c.window.Seconds())
	}
	return fmt.Sprintf("Retry-After: %.0f", c.window.Seconds())
}

// runAll runs the client in all cases at once.
func runAll(as503 bool, command []string) ([]string, error) {
	row, errs := make([]string, len(waits)), make([]error, len(waits))
	var all sync.WaitGroup
	for i, c := range waits {
		c.as503 = as503
		all.Go(func() { row[i], errs[i] = run(c, command) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return row, nil
}

// Endpoint takes batches, and notes which have arrived.
type endpoint struct {
	mu      sync.Mutex
	began   time.Time
	arrived map[string]time.Duration
	tries   map[string][]time.Duration // of denied batches, too
	n       int
}

var (
	word        = regexp.MustCompile(`(batch|trade)-[0-9]`)
	transaction = regexp.MustCompile(`"type":\s*"transaction"`)
)

// unpack returns body without its compression.
func unpack(h http.Header, body []byte) ([]byte, error) {
	switch {
	case h.Get("Content-Encoding") == "gzip":
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(unpacked, 1<<22))
	case h.Get("Content-Encoding") == "snappy", h.Get("Content-Type") == "application/x-protobuf" &&
		h.Get("Content-Encoding") == "" && options.kind == "loki":
		return unsnap(body)
	default:
		return body, nil
	}
}

// unsnap returns what a block of Snappy has in it.
func unsnap(block []byte) (out []byte, err error) {
	errShort := errors.New("snappy: the block ends early")
	size, n := binary.Uvarint(block)
	if n <= 0 || size > 1<<22 {
		return nil, errors.New("snappy: the size is wrong")
	}
	for block = block[n:]; len(block) > 0; {
		tag := block[0]
		length, offset, used := int(tag>>2)+1, 0, 1
		switch tag & 3 {
		case 0:
			if more := int(tag>>2) - 59; more > 0 { // bytes of the length
				if len(block) < 1+more {
					return nil, errShort
				}
				length, used = 1, 1+more
				for i := range more {
					length += int(block[1+i]) << (8 * i)
				}
			}
			if len(block) < used+length {
				return nil, errShort
			}
			out, block = append(out, block[used:used+length]...), block[used+length:]
			continue
		case 1:
			if len(block) < 2 {
				return nil, errShort
			}
			length, offset, used = int(tag>>2&7)+4, int(tag>>5)<<8|int(block[1]), 2
		case 2:
			if len(block) < 3 {
				return nil, errShort
			}
			offset, used = int(block[1])|int(block[2])<<8, 3
		case 3:
			return nil, errors.New("snappy: a copy of four bytes, which no encoder writes")
		}
		if offset <= 0 || offset > len(out) {
			return nil, errors.New("snappy: a copy from before the block")
		}
		for range length {
			out = append(out, out[len(out)-offset])
		}
		block = block[used:]
	}
	return out, nil
}

// wordsIn returns the words of the batches in body. An error of Sentry has the name of the transaction
// around it, too.
func wordsIn(body []byte) []string {
	name := "batch"
	if transaction.Match(body) {
		name = "trade"
	}
	return slices.DeleteFunc(word.FindAllString(string(body), -1),
		func(s string) bool { return !strings.HasPrefix(s, name) })
}

type wordKey struct{}

// read puts the word of the body into the context.
func (e *endpoint) read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			body, err = unpack(r.Header, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		words := wordsIn(body)
		if len(words) == 0 { // sessions and reports of clients
			return
		}
		e.mu.Lock()
		if e.began.IsZero() {
			e.began = time.Now()
		}
		e.n++
		seen := make(map[string]bool)
		for _, s := range words {
			if !seen[s] {
				seen[s] = true
				e.tries[s] = append(e.tries[s], time.Since(e.began))
			}
		}
		e.mu.Unlock()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), wordKey{}, words)))
	})
}

func wordsOf(r *http.Request) []string { return r.Context().Value(wordKey{}).([]string) }

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range wordsOf(r) {
		if _, known := e.arrived[s]; !known {
			e.arrived[s] = time.Since(e.began)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, "{}")
}

// isLimited reports whether the limit is for r: of Sentry for transactions alone.
func isLimited(r *http.Request) bool {
	return options.kind != "sentry" || strings.HasPrefix(wordsOf(r)[0], "trade")
}

func limited(c Case, next http.Handler) http.Handler {
	const units = 1000
	config := nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:      "project",
			Limit:     limits.AnchoredWindow(limits.Per(units, c.window)),
			Key:       core.When(isLimited, keyfuncs.Constant[*http.Request]("project")),
			DenyAs503: c.as503,
			Cost: func(r *http.Request) int64 {
				if r.Method == http.MethodPut {
					return units
				}
				return 1
			},
		}},
	}
	if c.bare {
		config.Headers.MaxRetryAfter = time.Second
	}
	if options.named {
		config.Headers.Custom = nameCategory
		if c.as503 { // for which Custom is not called
			config.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
				nameCategory(w.Header(), o)
				w.WriteHeader(o.Status())
			}
		}
	}
	handler := nethttp.MustNew(config).Handler(next)
	var once sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isLimited(r) {
			once.Do(func() { // another one uses it up
				other := httptest.NewRequest(http.MethodPut, "/", nil).WithContext(r.Context())
				other = other.WithContext(context.WithValue(r.Context(), wordKey{}, []string{"trade"}))
				handler.ServeHTTP(httptest.NewRecorder(), other)
			})
		}
		handler.ServeHTTP(w, r)
	})
}

// nameCategory has Sentry's SDKs stop the category that was denied, and no other.
func nameCategory(h http.Header, o core.Outcome) {
	if o.Allowed() {
		return
	}
	seconds := cmp.Or(h.Get("Retry-After"), "5") // 5: of an answer without the field
	h.Set("X-Sentry-Rate-Limits", seconds+":transaction:key")
}

func run(c Case, command []string) (string, error) {
	e := &endpoint{arrived: make(map[string]time.Duration), tries: make(map[string][]time.Duration)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: e.read(limited(c, e)), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)
	defer server.Close()

	port := listener.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithTimeout(context.Background(), options.stop)
	defer cancel()
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Env = append(os.Environ(), fmt.Sprintf("URL=http://127.0.0.1:%d", port), "PORT="+strconv.Itoa(port),
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	var out bytes.Buffer
	process.Stdout, process.Stderr = &out, &out
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	process.WaitDelay = time.Second
	err = process.Run()
	stopped := ctx.Err() != nil
	if os.Getenv("TRACE") != "" {
		fmt.Fprintf(os.Stderr, "%s, %s, 503 %v:\n%s\n", options.client, c.told(), c.as503, out.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n == 0 {
		return "", fmt.Errorf("it has sent nothing (%v), and printed:\n%s", err, out.String())
	}
	return e.cell(stopped, out.String()), nil
}

// cell says what has become of the batches.
func (e *endpoint) cell(stopped bool, out string) string {
	count := func(name string) (n int) {
		for i := range batches {
			if _, arrived := e.arrived[fmt.Sprint(name, "-", i)]; arrived {
				n++
			}
		}
		return n
	}
	var b strings.Builder
	if options.kind == "sentry" {
		fmt.Fprintf(&b, "%d errors, %d transactions", count("batch"), count("trade"))
	} else {
		fmt.Fprintf(&b, "%d of %d", count("batch"), batches)
	}
	fmt.Fprintf(&b, "; %d requests", e.n)
	first := "batch-0"
	if options.kind == "sentry" {
		first = "trade-0"
	}
	if tries := e.tries[first]; len(tries) > 1 {
		b.WriteString("; the first again after")
		for i := 1; i < min(len(tries), 5); i++ {
			fmt.Fprintf(&b, " %.1f", (tries[i] - tries[i-1]).Seconds())
		}
		b.WriteString(" s")
	}
	if stopped {
		fmt.Fprintf(&b, "; stopped after %.0f s", options.stop.Seconds())
	}
	if strings.TrimSpace(out) == "" {
		b.WriteString("; no line")
	}
	return b.String()
}
