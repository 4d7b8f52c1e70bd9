package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	prepareTime = 15 * time.Minute // for prepare, which may fetch and compile
	startTime   = time.Minute      // until a server answers
	endTime     = 5 * time.Second  // until a program has ended, before it is killed
	settleTime  = 3 * time.Second  // in which a server may still answer with an error
	knockTime   = 5 * time.Second  // for one answer of a server that starts
)

// localHost runs the commands of a profile on this machine.
type localHost struct {
	profile *Profile
	log     io.Writer

	mu          sync.Mutex // guards what follows
	prepared    *program
	servers     []*localServer
	store       *program
	storeURL    string
	storePort   int
	storeFolder string
}

// newLocalHost returns a host whose programs print to log, which may be nil.
func newLocalHost(profile *Profile, log io.Writer) *localHost {
	return &localHost{profile: profile, log: log}
}

// prepare runs the command of the profile that comes before the first start.
func (h *localHost) prepare(ctx context.Context) error {
	if h.profile.Prepare == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	p, err := h.run("prepare", h.profile.Prepare, nil)
	if err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.end()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return interrupted(ctx)
		}
		return fmt.Errorf("prepare: %q does not end in time: %s", h.profile.Prepare, p.tail.report())
	}
	if p.err != nil {
		p.kill()
		return fmt.Errorf("prepare: %q: %w: %s", h.profile.Prepare, p.err, p.tail.report())
	}
	if groupRuns(p.command) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.prepared = p // what it has left in the background ends with the host
	}
	return nil
}

// start implements host.
func (h *localHost) start(ctx context.Context) (instance, error) {
	s := &localServer{host: h}
	if h.profile.Start == "" {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.servers) > 0 {
			return nil, errElsewhere
		}
		s.address = h.profile.URL
		h.servers = append(h.servers, s)
		return s, nil
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s.port = port
	s.address = strings.ReplaceAll(h.profile.URL, "$PORT", strconv.Itoa(port))
	if err := s.launch(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = append(h.servers, s)
	return s, nil
}

// freePort returns a port of the loopback address that is free.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// startStore implements host. It starts redis-server, which writes nothing to a disk. A second start
// is at the same port.
func (h *localHost) startStore(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.storePort == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		if h.storeFolder, err = os.MkdirTemp("", "weir-conform-"); err != nil {
			return err
		}
		h.storePort, h.storeURL = port, fmt.Sprintf("redis://127.0.0.1:%d", port)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return errors.New("the profile has store: redis, and redis-server is not on the PATH: install it")
	}
	p, err := h.run("redis-server", fmt.Sprintf("exec redis-server --port %d --bind 127.0.0.1 --save '' "+
		"--appendonly no --dir '%s'", h.storePort, h.storeFolder), nil)
	if err != nil {
		return err
	}
	h.store = p
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(h.storePort))
	return p.await(ctx, "redis-server", func() error {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// stopStore implements host. The store has no time to say farewell.
func (h *localHost) stopStore() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store == nil {
		return errElsewhere
	}
	h.store.kill()
	return nil
}

// close implements host.
func (h *localHost) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		s.senders.close()
		if s.program != nil {
			s.program.end()
		}
	}
	if h.store != nil {
		h.store.kill()
	}
	if h.prepared != nil {
		h.prepared.kill()
	}
	if h.storeFolder != "" {
		os.RemoveAll(h.storeFolder)
	}
}

// program is a running command with all that it starts. What it starts may go on when the command has
// ended, if it stays in its process group.
type program struct {
	command *exec.Cmd
	output  *os.File // the end of a pipe from which tail reads what it prints
	tail    *tail
	ended   chan struct{} // closed when the command has ended
	err     error         // of the command, once it has ended
}

// run starts a command of the profile in its folder.
func (h *localHost) run(what, command string, environment []string) (*program, error) {
	c := exec.Command("sh", "-c", command)
	c.Dir = h.profile.folder
	c.Env = append(os.Environ(), environment...)
	// The pipe stays open after the command has ended: a process in the background that can no longer
	// print would end.
	output, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	p := &program{command: c, output: output, tail: &tail{log: h.log}, ended: make(chan struct{})}
	c.Stdout, c.Stderr = input, input
	inGroup(c)
	err = c.Start()
	input.Close()
	if err != nil {
		output.Close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	printed := make(chan struct{})
	go func() {
		io.Copy(p.tail, output)
		close(printed)
	}()
	go func() {
		p.err = c.Wait()
		select {
		case <-printed:
		case <-time.After(endTime): // something in the background may still print
		}
		close(p.ended)
	}()
	return p, nil
}

// await waits until a program is ready, which ready tells by no error.
func (p *program) await(ctx context.Context, what string, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			p.end()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return interrupted(ctx)
			}
			return fmt.Errorf("%s does not answer in time: %w: %s", what, err, p.tail.report())
		case <-time.After(25 * time.Millisecond):
		}
		select {
		case <-p.ended:
		default:
			continue
		}
		switch {
		case p.err != nil:
			p.kill() // what the command has left behind
			return fmt.Errorf("%s has ended (%w): %s", what, p.err, p.tail.report())
		case !groupRuns(p.command):
			return fmt.Errorf("%s has ended without an error: its command has to run as long as it does, and not in "+
				"the background: %s", what, p.tail.report())
		}
	}
}

// interrupted returns the error of a run whose context has ended.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("the run was interrupted: %w", context.Cause(ctx))
}

// end asks a program to end, and kills it if it does not.
func (p *program) end() {
	endGroup(p.command, false)
	select {
	case <-p.ended:
	case <-time.After(endTime):
	}
	p.kill() // what the command has left behind
}

// kill ends a program at once.
func (p *program) kill() {
	endGroup(p.command, true)
	<-p.ended
	p.output.Close()
}

// tail keeps the end of what a program prints.
type tail struct {
	mu   sync.Mutex
	log  io.Writer
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4 << 10
	if t.text = append(t.text, text...); len(t.text) > most {
		t.text = append(t.text[:0], t.text[len(t.text)-most:]...)
	}
	if t.log != nil {
		t.log.Write(text)
	}
	return len(text), nil
}

// report returns what is kept, for the end of an error.
func (t *tail) report() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return "it printed nothing"
	}
	return "it printed:\n" + text
}

// localServer is a server that a localHost has started, or that runs already.
type localServer struct {
	host    *localHost
	address string
	port    int
	senders senders
	program *program // nil: it runs already
}

// launch starts the program and waits until it answers by HTTP.
func (s *localServer) launch(ctx context.Context) error {
	environment := []string{"PORT=" + strconv.Itoa(s.port)}
	if s.host.storeURL != "" {
		environment = append(environment, "STORE="+s.host.storeURL)
	}
	p, err := s.host.run("start", s.host.profile.Start, environment)
	if err != nil {
		return err
	}
	s.program = p
	client := &http.Client{
		Timeout: knockTime, Transport: transportFrom(netip.Addr{}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	var firstAnswer time.Time
	return p.await(ctx, "the server", func() error {
		q, err := s.host.knock(s.address)
		if err != nil {
			return err
		}
		answer, err := client.Do(q)
		if err != nil {
			return fmt.Errorf("%w: it has to answer on the port in the variable PORT", err)
		}
		answer.Body.Close()
		s.senders.answered(answer)
		if firstAnswer.IsZero() {
			firstAnswer = time.Now()
		}
		// Some listen before they have read their routes, or have reached their store.
		if answer.StatusCode >= 400 && time.Since(firstAnswer) <= settleTime {
			return fmt.Errorf("it answers %s", answer.Status)
		}
		return nil
	})
}

// knock returns a request that finds out whether a server has started, by a client of its own.
func (h *localHost) knock(address string) (*http.Request, error) {
	p := h.profile
	q, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range p.Send {
		q.Header[name] = values
	}
	q.Host = p.Send.Get("Host")
	switch n := rand.Uint32(); p.Key.From {
	case FromHeader:
		q.Header.Set(p.Key.Field, fmt.Sprintf("conform-start-%x", n))
	case FromForwarded:
		q.Header.Set(p.Key.Field, netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)}).String())
	}
	return q, nil
}

// url implements instance.
func (s *localServer) url() string { return s.address }

// from implements instance.
func (s *localServer) from(local netip.Addr, http2 bool) http.RoundTripper {
	return s.senders.from(local, http2)
}

// memory implements instance.
func (s *localServer) memory() (bytes int64, ok bool) {
	if s.program == nil {
		return 0, false
	}
	return groupMemory(s.program.command)
}

// restart implements instance.
func (s *localServer) restart(ctx context.Context) error {
	if s.program == nil {
		return errElsewhere
	}
	s.program.end()
	s.senders.close()
	return s.launch(ctx)
}
