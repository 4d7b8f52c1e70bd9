package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

const (
	atOnce = 4 // the concurrency limit

	// shortHold is the least. Units that nobody renews end soon.
	shortHold = 3 * time.Second
)

// upload is what all requests are under.
const upload = "uploads"

// holder is a process with one concurrency limit, as far as limits are concerned.
type holder struct {
	backend *redisbackend.Bare
	limiter *core.Limiter[string]

	mu    sync.Mutex
	under []core.Outcome // requests under way
}

// holding says what a holder is made of.
type holding struct {
	hold      time.Duration
	onFailure core.FailurePolicy
	budget    time.Duration // 0: the default, 50 ms
	instances int
}

// newHolder returns a holder. If Redis is well during its test, its budget is patience, so
// that a slow machine does not look like a slow Redis.
func newHolder(client redis.Scripter, of holding) *holder {
	watchStalls()
	h := &holder{backend: redisbackend.MustNewBare(client,
		redisbackend.BareOptions{HoldTime: of.hold, Logger: slog.New(slog.DiscardHandler)})}
	guarded := remote.MustNewBreaker(h.backend, remote.BreakerOptions{
		Budget: of.budget, OpenFor: 250 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	h.limiter = core.MustNew(core.Config[string]{
		Rules:     []core.Rule[string]{{Name: upload, Limit: limits.Concurrent(atOnce), Key: self, OnFailure: of.onFailure}},
		Backend:   remote.MustNewDenialCache(guarded, remote.DenialCacheOptions{}),
		Instances: of.instances,
	})
	return h
}

// newClient returns a client with the recommended options.
func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(recommended(addr))
	t.Cleanup(func() { client.Close() })
	return client
}

func recommended(addr string) *redis.Options {
	return &redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}
}

// decide makes a request, which stays under way if it is allowed.
func (h *holder) decide(t testing.TB) core.Outcome {
	t.Helper()
	o := h.limiter.Decide(context.Background(), "ann")
	if o.Allowed() {
		h.mu.Lock()
		h.under = append(h.under, o)
		h.mu.Unlock()
	}
	return o
}

// start makes n requests and returns how many are allowed.
func (h *holder) start(t testing.TB, n int) (allowed int) {
	t.Helper()
	for range n {
		if o := h.decide(t); o.Allowed() {
			allowed++
		}
	}
	return allowed
}

// end ends all requests under way.
func (h *holder) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.under {
		h.under[i].End(core.Result{Status: 200})
	}
	h.under = nil
}

// underWay returns how many requests run in all holders.
func underWay(all ...*holder) (n int) {
	for _, h := range all {
		h.mu.Lock()
		n += len(h.under)
		h.mu.Unlock()
	}
	return n
}

// inRedis returns how many units Redis counts as held, −1 if it cannot be asked.
func inRedis(t testing.TB, b backends.Peeker) int {
	t.Helper()
	out := make([]limits.Decision, 1)
	charges := []backends.Charge{{Scope: upload, Key: "ann", Limit: limits.Concurrent(100_000)}}
	if b.Peek(t.Context(), charges, out) != nil {
		return -1
	}
	return 100_000 - int(out[0].Remaining)
}

// holds waits until Redis counts n units as held.
func holds(t testing.TB, b backends.Peeker, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d units are held", n), func() bool { return inRedis(t, b) == n })
}

// exactAgain fails the test unless all holders together start as many requests as the
// limit allows, and one more as soon as one ends. Nothing must be under way.
func exactAgain(t testing.TB, b backends.Peeker, all ...*holder) {
	t.Helper()
	holds(t, b, 0)
	for i := range all {
		var group sync.WaitGroup
		for _, h := range all {
			for range 2 {
				group.Go(func() { h.start(t, atOnce) })
			}
		}
		group.Wait()
		if n := underWay(all...); n != atOnce {
			exceeded(t, "afterwards, round %d: %d requests are under way at once, want %d", i+1, n, atOnce)
		}
		for _, h := range all {
			h.end()
		}
		holds(t, b, 0)
	}
}

// holderVariable has the address of the server where this program is to be a process that
// holds units.
const holderVariable = "WEIR_FAULTS_HOLDER"

// process is a holder in a process of its own, which may be killed and stopped.
type process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
}

func startProcess(t testing.TB, addr string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: testrun.Command(t, self)}
	p.command.Env = append(os.Environ(), holderVariable+"="+addr)
	p.command.Stderr = os.Stderr
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9. It may be called again.
func (p *process) kill() {
	p.command.Process.Kill()
	p.command.Wait()
}

// tell has the process start so many requests, or end all if that is 0, and returns how
// many are then under way.
func (p *process) tell(t testing.TB, requests int) (under int) {
	t.Helper()
	p.ask(t, requests)
	return p.answer(t)
}

func (p *process) ask(t testing.TB, requests int) {
	t.Helper()
	if _, err := fmt.Fprintln(p.stdin, requests); err != nil {
		t.Fatal(err)
	}
}

func (p *process) answer(t testing.TB) (under int) {
	t.Helper()
	if _, err := fmt.Fscanln(p.stdout, &under); err != nil {
		t.Fatalf("a process does not answer: %v", err)
	}
	return under
}

// holdingProcess does what tell says, until its input ends.
func holdingProcess(addr string) int {
	client := redis.NewClient(recommended(addr))
	defer client.Close()
	h := newHolder(client, holding{hold: shortHold, onFailure: core.FailClosed, budget: patience})
	for {
		var requests int
		if _, err := fmt.Scanln(&requests); err != nil {
			return 0
		}
		if requests == 0 {
			h.end()
		}
		for range requests {
			o := h.limiter.Decide(context.Background(), "ann")
			if o.Verdict() == core.Unavailable {
				fmt.Fprintln(os.Stderr, o.Err())
			}
			if o.Allowed() {
				h.under = append(h.under, o)
			}
		}
		fmt.Println(len(h.under))
	}
}
