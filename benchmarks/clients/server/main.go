// Server starts weir, runs a client against it, and prints what the client made of its denials: one
// row of a Markdown table for each case. The client is a program of its own. It finds the address
// in URL and PORT of its environment, and the last line that it prints and that begins with "saw "
// says what its caller got.
//
//	server -language Node -client axios -release 1.21.1 -- node http.mjs axios
//
// All requests are denied. Each case has a listener and a process of its own. A client that sends
// one request and ends is not asked which field it would wait for, nor how long.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of a run. A client that still asks then is cut off.
const (
	startTime = 90 * time.Second // until its first request
	manyTime  = 5 * time.Second  // if it has sent more than many requests
	longTime  = 15 * time.Second // if it has sent few
	shortTime = 5 * time.Second  // in cases that need no more
	many      = 6
	most      = 1000 // requests
)

// Case is a way to deny all requests.
type Case struct {
	name string
	stop time.Duration // when the client is cut off, 0: manyTime or longTime
	once bool          // cut off after the second request
}

var cases = []Case{
	{name: "429"},
	{name: "fields", stop: shortTime, once: true},
	{name: "503"},
	{name: "hour", stop: shortTime},
	{name: "bare", stop: shortTime}, // an hour that no field tells
}

func main() {
	language := flag.String("language", "", "language of the client")
	client := flag.String("client", "", "name of the client, as its registry has it")
	release := flag.String("release", "", "release of the client")
	answer := flag.String("answer", "default",
		"what weir answers: "+strings.Join(answerNames(), ", "))
	only := flag.String("case", "", "the cases to run, with commas; all unless set")
	head := flag.Bool("head", false, "print the head of the table and the date, and run nothing")
	flag.Parse()
	if *head {
		fmt.Printf("%s\n\n| language | client | release | answer | case "+
			"| requests | waits, ms | told, s | end | saw |\n"+
			"|---|---|---|---|---|---|---|---|---|---|\n", time.Now().UTC().Format(time.DateOnly))
		return
	}
	failed, gaveUp := false, false
	for _, c := range cases {
		if gaveUp && c.name != "503" {
			continue
		}
		if *only != "" && !strings.Contains(","+*only+",", ","+c.name+",") {
			continue
		}
		r, err := run(c, *answer, flag.Args())
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s %s, %s: %v\n", *client, *release, c.name, err)
			failed = true
			continue
		}
		gaveUp = gaveUp || c.name == "429" && len(r.at) == 1 && r.end == "ends"
		fmt.Println("|", strings.Join([]string{*language, *client, *release, *answer, c.name,
			strconv.Itoa(len(r.at)), r.waits(), strings.Join(r.told, " "), r.end, r.saw,
		}, " | "), "|")
	}
	if failed {
		os.Exit(1)
	}
}

// Report is what a client did.
type report struct {
	at   []time.Time // of arrivals
	told []string    // Retry-After of the answers, at most ten
	end  string
	saw  string
}

// waits returns the milliseconds between arrivals, at most ten of them.
func (r *report) waits() string {
	var b strings.Builder
	for i := 1; i < len(r.at) && i <= 10; i++ {
		fmt.Fprint(&b, " ", r.at[i].Sub(r.at[i-1]).Milliseconds())
	}
	return strings.TrimSpace(b.String())
}

// Log notes arrivals at next.
type log struct {
	next    http.Handler
	arrived chan struct{} // has room for one
	mu      sync.Mutex
	at      []time.Time
	asked   []string // method and path of each arrival
	told    []string // Retry-After of the first answers
}

// last returns the arrivals of what the client asked for last, and what they were told. A client
// that asks for something else before has not repeated that.
func (l *log) last() (at []time.Time, told []string) {
	for i := range l.at {
		if l.asked[i] != l.asked[len(l.asked)-1] {
			continue
		}
		at = append(at, l.at[i])
		if i < len(l.told) && len(told) < 10 {
			told = append(told, l.told[i])
		}
	}
	return at, told
}

func (l *log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.at = append(l.at, time.Now())
	l.asked = append(l.asked, r.Method+" "+r.URL.Path)
	l.mu.Unlock()
	if os.Getenv("TRACE") != "" {
		fmt.Fprintln(os.Stderr, r.Method, r.URL, r.Header)
	}
	io.CopyN(io.Discard, r.Body, 1<<20)
	l.next.ServeHTTP(w, r)
	l.mu.Lock()
	if len(l.told) < 20 {
		l.told = append(l.told, cmp.Or(w.Header().Get("Retry-After"), "-"))
	}
	l.mu.Unlock()
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// seen returns how many requests have arrived, and when the first did.
func (l *log) seen() (int, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.at) == 0 {
		return 0, time.Time{}
	}
	return len(l.at), l.at[0]
}

// run runs the client once.
func run(c Case, answer string, command []string) (*report, error) {
	handler, err := denier(c.name, answer)
	if err != nil {
		return nil, err
	}
	l := &log{next: handler, arrived: make(chan struct{}, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: l, ReadHeaderTimeout: startTime}
	go server.Serve(listener)
	defer server.Close()

	port := listener.Addr().(*net.TCPAddr).Port
	var out bytes.Buffer
	process := exec.Command(command[0], command[1:]...)
	process.Env = append(os.Environ(), fmt.Sprintf("URL=http://127.0.0.1:%d", port),
		fmt.Sprintf("PORT=%d", port), "CASE="+c.name, "NO_PROXY=127.0.0.1,localhost",
		"no_proxy=127.0.0.1,localhost")
	process.Stdout, process.Stderr = &out, &out
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.WaitDelay = time.Second
	if err := process.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	cut := watch(c, l, ended)
	syscall.Kill(-process.Process.Pid, syscall.SIGKILL) // the group that Setpgid made for it
	if cut != "" {
		<-ended
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	server.Shutdown(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()
	at, told := l.last()
	r := &report{at: at, told: told, end: cmp.Or(cut, "ends"),
		saw: saw(strings.ReplaceAll(out.String(), strconv.Itoa(port), "PORT"))}
	if len(r.at) == 0 {
		return nil, errors.New("no request arrived; the client printed:\n" + out.String())
	}
	if c.name != "fields" && cut == "" && r.saw == "" {
		return nil, errors.New("the client does not say what it saw; it printed:\n" + out.String())
	}
	return r, nil
}

// watch waits until the client ends, or returns why it is to be cut off.
func watch(c Case, l *log, ended chan error) string {
	start := time.After(startTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			ended <- err
			return ""
		case <-start:
			if n, _ := l.seen(); n == 0 {
				return "cut off: it sent nothing"
			}
		case <-l.arrived:
		case <-tick.C:
		}
		n, first := l.seen()
		if n == 0 {
			continue
		}
		took := time.Since(first)
		switch {
		case n >= most:
			return fmt.Sprintf("cut off after %.1f s", took.Seconds())
		case c.once && n >= 2:
			return "cut off after the second"
		case c.stop > 0 && took > c.stop,
			c.stop == 0 && took > manyTime && n > many,
			took > longTime:
			return fmt.Sprintf("cut off after %.0f s", took.Seconds())
		}
	}
}

// saw returns what follows "saw " in the last line of out that begins so.
func saw(out string) string {
	s := ""
	for line := range strings.Lines(out) {
		if rest, found := strings.CutPrefix(line, "saw "); found {
			s = strings.TrimSpace(rest)
		}
	}
	s = strings.NewReplacer("|", "¦", "\n", " ", "\t", " ", "`", "'").Replace(s)
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
}
