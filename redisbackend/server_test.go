package redisbackend_test

import (
	"flag"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/redisbackend"
)

// atOnce is how many tests run at once: they wait for their servers most of the time. It bounds the
// servers, too, since a test has seven at most.
const atOnce = 8

func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false // or bounds the workers of a fuzz target
	flag.Visit(func(f *flag.Flag) {
		isSet = isSet || f.Name == "test.parallel" || f.Name == "test.fuzz"
	})
	if !isSet {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	m.Run()
}

var prefixes atomic.Int64

func uniquePrefix() string { return fmt.Sprintf("test%d", prefixes.Add(1)) }

// newBare returns a backend on client with a prefix of its own, which waits for ever: the machine
// may be slow.
func newBare(client redis.Scripter) *redisbackend.Bare {
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: uniquePrefix()})
	redisbackend.WaitForEver(b)
	return b
}

// bareAt is newBare with a clock that the test sets.
func bareAt(client redis.Scripter, clock func() time.Time) *redisbackend.Bare {
	return redisbackend.WithClock(newBare(client), clock)
}

// redisServer is a redis-server of a test's own.
type redisServer struct {
	addr    string
	command *exec.Cmd
}

var serverName = flag.String("server", "redis-server", "the `program` that tests start, such as valkey-server")

// startRedis starts a server on a free loopback port and ends it with the test.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, addr, append(serverArgs(t, port), args...)...)
}

func serverArgs(t testing.TB, port string) []string {
	return []string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--loglevel",
		"warning",
	}
}

// startServer is startRedis with arguments that make it listen on addr.
func startServer(t testing.TB, addr string, args ...string) *redisServer {
	t.Helper()
	s := &redisServer{addr: addr, command: serverCommand(t, args...)}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen on %s: %v", *serverName, addr, err)
		}
	}
}

// serverCommand starts nothing yet. A program that the flag names must be there.
func serverCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if *serverName != "redis-server" && !testrun.Has(*serverName) {
		t.Fatalf("-server %s: it is not on the PATH", *serverName)
	}
	return testrun.Command(t, *serverName, args...)
}

// kill ends the server at once, if it runs.
func (s *redisServer) kill() {
	if s.command.ProcessState == nil {
		s.command.Process.Kill()
		s.command.Wait()
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

// beforeRedis7 reports whether the program is Redis 6 or one derived from it.
func beforeRedis7(t testing.TB) bool {
	t.Helper()
	version, err := serverCommand(t, "--version").Output()
	ok(t, err)
	return strings.Contains(string(version), " v=6.")
}
