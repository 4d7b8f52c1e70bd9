package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Times of a run. The innocent client asks from the beginning. The limited one asks for a while,
// and the run ends once the innocent one has been served for some time after that.
const (
	startTime    = 2 * time.Minute // until the balancer serves
	aloneTime    = time.Second
	limitedTime  = 5 * time.Second
	quietTime    = 6 * time.Second
	longestTime  = 100 * time.Second
	innocentWait = 100 * time.Millisecond // between requests
	limitedWait  = 5 * time.Millisecond
)

// Result is what happened in a run.
type result struct {
	answer   string         // of weir
	innocent map[string]int // answers, from the first request of the limited client on
	limited  map[string]int
	asked    int64 // requests of the limited client at weir
	first    time.Time
	last     time.Time // when the innocent client was served again
	open     bool      // it was not served again
}

func run(s setup, answer string) (*result, error) {
	if s.weir != "" {
		return runGuide(s)
	}
	behind, err := serve(answer)
	if err != nil {
		return nil, err
	}
	defer behind.end()
	r := &result{answer: answer, innocent: make(map[string]int), limited: make(map[string]int)}
	if s.grpc {
		r.answer = map[string]string{"429": "RESOURCE_EXHAUSTED", "503": "UNAVAILABLE"}[answer]
	}
	if s.channel != "" {
		ask, end, err := overChannel(s.channel, behind.ports)
		if err != nil {
			return nil, err
		}
		defer end()
		return r, r.measure(ask, behind, nil)
	}
	proxy, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(s.config))
	places := strings.NewReplacer("@proxy@", proxy, "@one@", behind.ports[0],
		"@two@", behind.ports[1], "@dir@", dir, "@config@", file)
	if s.config != "" {
		text, err := os.ReadFile(s.config)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(places.Replace(string(text))), 0o644); err != nil {
			return nil, err
		}
	}
	balancer, err := begin(dir, places, s.command, "PROXY="+proxy, "ONE="+behind.ports[0], "TWO="+behind.ports[1])
	if err != nil {
		return nil, err
	}
	defer balancer.stop()
	ask := overHTTP(proxy)
	if s.grpc {
		ask = overGRPC(proxy)
	}
	return r, balancer.explain(r.measure(ask, behind, balancer.ended))
}

// folder makes a folder for a run.
func folder() (string, error) {
	dir, err := os.MkdirTemp(".", "run")
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// Program is a program that has begun.
type program struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan struct{}
}

// begin starts a command whose arguments have placeholders. Its folder is its home.
func begin(dir string, places *strings.Replacer, command []string, env ...string) (*program, error) {
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = places.Replace(arg)
	}
	p := &program{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "HOME="+dir), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends the program, and those that it has started.
func (p *program) stop() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the group that Setpgid made for it
	<-p.ended
}

// explain adds what the program printed to an error.
func (p *program) explain(err error) error {
	if err == nil {
		return nil
	}
	p.stop()
	return fmt.Errorf("%w; it printed:\n%s", err, p.out.String())
}

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// measure lets both clients ask.
func (r *result) measure(ask asker, behind *servers, ended <-chan struct{}) error {
	served := 0
	for deadline := time.Now().Add(startTime); served < 10; time.Sleep(innocentWait) {
		got := ask("innocent")
		if served++; !isServed(got) {
			served = 0
		}
		select {
		case <-ended:
			return fmt.Errorf("the balancer has ended")
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the balancer serves nothing, the last answer was %s", got)
		}
	}
	time.Sleep(aloneTime)
	begun := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(limitedWait)
		defer tick.Stop()
		for time.Since(begun) < limitedTime {
			r.limited[ask(limited)]++
			<-tick.C
		}
	}()
	defer func() {
		<-done
		if behind != nil {
			r.asked = behind.asked.Load()
		}
	}()
	tick := time.NewTicker(innocentWait)
	defer tick.Stop()
	quiet := begun.Add(limitedTime) // since when the innocent client is served
	for time.Since(quiet) < quietTime && time.Since(begun) < longestTime {
		<-tick.C
		asked := time.Now()
		got := ask("innocent")
		r.innocent[got]++
		if isServed(got) {
			if r.open {
				r.open, r.last = false, time.Now()
			}
			continue
		}
		if r.first.IsZero() {
			r.first = asked
		}
		r.open = true
		if now := time.Now(); now.After(quiet) {
			quiet = now
		}
	}
	return nil
}

func isServed(got string) bool { return got == "200" || got == "OK" }

// spared reports whether the innocent client was always served, and denied requests not repeated.
func (r *result) spared() bool {
	return r.first.IsZero() && (r.asked == 0 || r.each() == "1.0")
}

// refused says how many requests of the innocent client were refused, and how.
func (r *result) refused() string {
	all, refused := 0, 0
	var kinds []string
	for got, n := range r.innocent {
		all += n
		if !isServed(got) {
			refused += n
			kinds = append(kinds, got)
		}
	}
	if refused == 0 {
		return fmt.Sprintf("0 of %d", all)
	}
	slices.Sort(kinds)
	return fmt.Sprintf("**%d** of %d: %s", refused, all, strings.Join(kinds, ", "))
}

// during says for how long, from the first refused request to the first one served after the last.
func (r *result) during() string {
	switch {
	case r.first.IsZero():
		return "–"
	case r.open:
		return fmt.Sprintf("more than %.0f s", time.Since(r.first).Seconds())
	}
	return fmt.Sprintf("%.1f s", r.last.Sub(r.first).Seconds())
}

// got says what the limited client got.
func (r *result) got() string {
	var kinds []string
	for got, n := range r.limited {
		kinds = append(kinds, fmt.Sprintf("%s × %d", got, n))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ", ")
}

// each says how many requests weir saw for each of the limited client.
func (r *result) each() string {
	all := 0
	for _, n := range r.limited {
		all += n
	}
	return fmt.Sprintf("%.1f", float64(r.asked)/float64(all))
}
