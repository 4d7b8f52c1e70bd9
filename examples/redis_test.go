package examples

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// redisProgram is a running instance of the example redis, with its log.
type redisProgram struct {
	url string
	mu  sync.Mutex
	log []string
}

func startRedisProgram(t *testing.T, program, redisURL string) *redisProgram {
	t.Helper()
	cmd := testrun.Command(t, program)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL="+redisURL)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := new(redisProgram)
	ended, listening := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.mu.Lock()
			p.log = append(p.log, lines.Text())
			p.mu.Unlock()
			if _, addr, ok := strings.Cut(lines.Text(), "listening on "); ok {
				listening <- addr
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v\n%s", err, strings.Join(p.log, "\n"))
		}
	})
	select {
	case addr := <-listening:
		p.url = "http://" + addr
	case <-ended:
		t.Fatalf("the program ended:\n%s", strings.Join(p.log, "\n"))
	case <-time.After(time.Minute):
		t.Fatal("the program does not listen")
	}
	return p
}

// logged returns how many lines of the log contain word.
func (p *redisProgram) logged(word string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.log {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// get returns the status of GET / and fails unless it is 200 or 429.
func (p *redisProgram) get(t *testing.T) int {
	t.Helper()
	a := send(t, "GET", p.url+"/", "")
	if a.StatusCode != http.StatusOK && a.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("got %s, want an answer", a.Status)
	}
	return a.StatusCode
}

// until sends requests until the log contains word.
func (p *redisProgram) until(t *testing.T, word string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); p.logged(word) == 0; time.Sleep(10 * time.Millisecond) {
		p.get(t)
		if time.Now().After(deadline) {
			t.Fatalf("no %q in the log:\n%s", word, strings.Join(p.log, "\n"))
		}
	}
}

func startRedisServer(t *testing.T, addr string, more ...string) (kill func()) {
	t.Helper()
	testrun.FullOnly(t, "programs with Redis")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir(), "--loglevel", "warning"}
	cmd := testrun.Command(t, "redis-server", append(args, more...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(kill)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return kill
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// shareOneLimit fails unless two instances together allow as much as one limit.
func shareOneLimit(t *testing.T, one, other *redisProgram) {
	t.Helper()
	start, allowed := time.Now(), 0
	for range 60 {
		for _, p := range []*redisProgram{one, other} {
			if p.get(t) == http.StatusOK {
				allowed++
			}
		}
	}
	refilled := int(time.Since(start)/(600*time.Millisecond)) + 1
	if allowed < 20 || allowed > 20+refilled {
		t.Errorf("two instances allowed %d together, want 20 and what came back meanwhile, at most %d", allowed,
			refilled)
	}
}

func TestRedisSharesOneLimitAndSurvivesWithoutIt(t *testing.T) {
	addr := freeAddr(t)
	kill := startRedisServer(t, addr)
	program := build(t, "redis")
	one, other := startRedisProgram(t, program, "redis://"+addr), startRedisProgram(t, program, "redis://"+addr)
	shareOneLimit(t, one, other)

	kill()
	one.until(t, "degraded")
	startRedisServer(t, addr)
	one.until(t, "recovered")
	if d, r := one.logged("degraded"), one.logged("recovered"); d != 1 || r != 1 {
		t.Errorf("logged degraded %d times and recovered %d times:\n%s", d, r, strings.Join(one.log, "\n"))
	}
}

func TestRedisThatIsNotThereIsSaidOnce(t *testing.T) {
	addr := freeAddr(t)
	p := startRedisProgram(t, build(t, "redis"), "redis://"+addr)
	if got := p.get(t); got != http.StatusOK {
		t.Errorf("the first request got %d", got)
	}
	p.until(t, "degraded")
	for range 20 {
		p.get(t)
	}
	if n := p.logged("degraded") + p.logged("without Redis"); n != 2 {
		t.Errorf("%d lines say that Redis is not there, want one at the start and one when it was given up:\n%s", n,
			strings.Join(p.log, "\n"))
	}
	startRedisServer(t, addr)
	p.until(t, "recovered")
}

func TestRedisThatEvictsIsUsedAndSaidToForget(t *testing.T) {
	addr := freeAddr(t)
	startRedisServer(t, addr, "--maxmemory-policy", "allkeys-lru")
	program := build(t, "redis")
	one, other := startRedisProgram(t, program, "redis://"+addr), startRedisProgram(t, program, "redis://"+addr)
	for _, p := range []*redisProgram{one, other} {
		if p.logged("may forget") != 1 || p.logged("maxmemory-policy") != 1 || p.logged("without Redis") != 0 {
			t.Errorf("want one line that says what is true:\n%s", strings.Join(p.log, "\n"))
		}
	}
	shareOneLimit(t, one, other)
}

// The kernel accepts connections for the listener, and nobody ever answers.
func TestRedisThatSaysNothingHoldsNothingUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir() // of the program as it is: build may give it much patience
	if err := goBuild(t, ".", dir, []string{"./redis"}); err != nil {
		t.Fatal(err)
	}
	p := startRedisProgram(t, filepath.Join(dir, "redis"), "redis://"+silent.Addr().String())
	if got := p.get(t); got != http.StatusOK {
		t.Errorf("the first request got %d", got)
	}
	if p.logged("without Redis") != 1 {
		t.Errorf("it does not say so:\n%s", strings.Join(p.log, "\n"))
	}
}
