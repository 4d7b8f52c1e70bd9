// Answers starts weir before nothing at all, runs a program against its denials, and prints one row
// of a Markdown table. benchmarks/between/errors.sh asks what the program prints of a denial, and
// statuses.sh whether it repeats a 429 and a 503, after which waits.
//
//	answers -table errors -name go -release 1.26.8 -- bash -c 'GOPROXY=$URL go mod download m@v1.0.0'
//
// All requests are denied. Each run has a listener, a folder and a process group of its own.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func main() {
	table := flag.String("table", "", "errors or statuses")
	name := flag.String("name", "", "name of the program")
	release := flag.String("release", "", "its release")
	head := flag.Bool("head", false, "print the head of the table and the date, and run nothing")
	var p program
	flag.DurationVar(&p.bound, "bound", time.Minute, "when the program is cut off")
	flag.BoolVar(&p.allowHead, "allow-head", false, "answer 200 to HEAD, and count only others")
	flag.StringVar(&p.then, "then", "",
		"answer this when the first request comes again, and 404 to others")
	flag.Parse()
	p.command = flag.Args()
	row, known := map[string]func(program) ([]string, error){
		"errors": errorsRow, "statuses": statusesRow,
	}[*table]
	if !known {
		fmt.Fprintln(os.Stderr, "answers: -table is errors or statuses")
		os.Exit(2)
	}
	if *head {
		fmt.Printf("%s\n\n%s", time.Now().UTC().Format(time.DateOnly), heads[*table])
		return
	}
	cells, err := row(p)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", *name, *release, err)
		os.Exit(1)
	}
	fmt.Println("|", strings.Join(append([]string{*name, *release}, cells...), " | "), "|")
}

var heads = map[string]string{
	"errors": "| program | release | as it asks, it gets | and shows | with `PlainText` | prints |\n" +
		"|---|---|---|---|---|---|\n",
	"statuses": "| program | release | 429 | Retry-After | 503 | Retry-After |\n" +
		"|---|---|---|---|---|---|\n",
}

// program is a program to run.
type program struct {
	command   []string
	bound     time.Duration
	allowHead bool
	then      string // the answer when the first request comes again, "": denials
}

// errorsRow tells what the program prints of the document and of plain text.
func errorsRow(p program) ([]string, error) {
	document, err := p.run(denier(time.Second, nil))
	if err != nil {
		return nil, err
	}
	text, err := p.run(denier(time.Second, func(c *nethttp.Config) { c.Denied = nethttp.PlainText }))
	if err != nil {
		return nil, err
	}
	asked := "the document"
	if strings.HasPrefix(document.media, "text/plain") {
		asked = "text"
	}
	shows, line := shown(document.printed)
	showsText, lineOfText := shown(text.printed)
	if asked == "text" || showsText == shows {
		showsText = "the same"
	} else {
		line += "`<br>`" + lineOfText
	}
	return []string{asked, shows, showsText, "`" + line + "`"}, nil
}

// The wait that denials tell when statuses are asked. Few programs wait as long of their own.
const toldWait = 7 * time.Second

// statusesRow tells whether the program repeats a 429 and a 503.
func statusesRow(p program) ([]string, error) {
	limited, err := p.run(denier(toldWait, nil))
	if err != nil {
		return nil, err
	}
	full, err := p.run(denier(toldWait, func(c *nethttp.Config) { c.Rules[0].DenyAs503 = true }))
	if err != nil {
		return nil, err
	}
	return []string{limited.repeats(), limited.read(), full.repeats(), full.read()}, nil
}

// denier returns weir as it denies every request. Another client always takes the one request of
// wait before.
func denier(wait time.Duration, set func(*nethttp.Config)) http.Handler {
	config := nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "per-client",
		Limit: limits.TokenBucket(limits.Per(1, wait), 1),
		Key:   keyfuncs.Constant[*http.Request]("all"),
	}}}
	if set != nil {
		set(&config)
	}
	limiter := nethttp.MustNew(config)
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limiter.Decide(httptest.NewRequest("GET", "/", nil))
		handler.ServeHTTP(w, r)
	})
}

// report is what a program did.
type report struct {
	asked   []request
	media   string // of the first denial
	printed string
	end     string
}

// request is an arrival. Two with equal texts are the same request again.
type request struct {
	at   time.Time
	text string
}

// run runs the program against handler.
func (p program) run(handler http.Handler) (*report, error) {
	dir, err := os.MkdirTemp("", "answers")
	if err != nil {
		return nil, err
	}
	defer func() {
		// Go writes its module cache without write permission.
		exec.Command("chmod", "-R", "u+w", dir).Run()
		os.RemoveAll(dir)
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &report{}
	var mu sync.Mutex
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		now := time.Now()
		if p.allowHead && q.Method == http.MethodHead {
			w.Header().Set("Content-Length", "155")
			return
		}
		hash := sha256.New()
		io.Copy(hash, io.LimitReader(q.Body, 1<<20))
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf("%s %s %x", q.Method, q.URL, hash.Sum(nil))
		switch {
		case p.then == "" || len(r.asked) == 0:
			handler.ServeHTTP(w, q)
		case text == r.asked[0].text:
			io.WriteString(w, p.then)
		default:
			http.NotFound(w, q)
		}
		r.asked = append(r.asked, request{now, text})
		if len(r.asked) == 1 {
			r.media = w.Header().Get("Content-Type")
		}
	})}
	go server.Serve(listener)
	defer server.Close()

	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	ctx, cancel := context.WithTimeout(context.Background(), p.bound)
	defer cancel()
	command := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	command.Dir = dir
	command.Env = append(environment(), "HOME="+dir, "URL=http://127.0.0.1:"+port, "PORT="+port,
		"COLUMNS=200")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	printed, err := command.CombinedOutput()
	if command.Process != nil {
		syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it may have left
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.end = fmt.Sprintf("cut off after %.0f s", p.bound.Seconds())
	case err == nil:
		r.end = "exit 0"
	case errors.As(err, &exit):
		r.end = fmt.Sprintf("exit %d", exit.ExitCode())
	default:
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	r.printed = strings.NewReplacer(dir, "DIR", port, "PORT").Replace(string(printed))
	if len(r.asked) == 0 {
		return nil, fmt.Errorf("no request arrived; the program printed:\n%s", r.printed)
	}
	return r, nil
}

// settings begin the variables that would change what programs do.
var settings = []string{"PIP_", "UV_", "npm_", "GOPROXY=", "GOFLAGS=", "GOPATH=", "HOME="}

// environment is that of this process without settings of programs.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc(settings, func(s string) bool {
			return strings.HasPrefix(variable, s)
		})
	})
}
