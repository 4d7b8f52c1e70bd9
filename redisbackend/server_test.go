package redisbackend_test

import (
	"cmp"
	"fmt"
	"github.com/weir-go/weir/internal/freeport"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

var prefixes atomic.Int64

func uniquePrefix() string { return fmt.Sprintf("test%d", prefixes.Add(1)) }

// redisServer is a redis-server of a test's own.
type redisServer struct {
	addr    string
	command *exec.Cmd
}

// startRedis starts a redis-server, or what WEIR_REDIS_SERVER names, such as
// valkey-server, on a free loopback port and ends it with the test. Where it is
// not on the PATH the test is skipped, or fails if WEIR_REQUIRE_REDIS is set.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, addr, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--loglevel", "warning",
	}, args...)...)
}

// startServer is startRedis with arguments that make it listen on addr.
func startServer(t testing.TB, addr string, args ...string) *redisServer {
	t.Helper()
	name := cmp.Or(os.Getenv("WEIR_REDIS_SERVER"), "redis-server")
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_REDIS") != "" {
			t.Fatal(name, "is not on the PATH, and WEIR_REQUIRE_REDIS is set")
		}
		t.Skip(name, "is not on the PATH: this test needs a real one")
	}
	s := &redisServer{addr: addr, command: exec.Command(path, args...)}
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
			t.Fatalf("%s does not listen on %s: %v", name, addr, err)
		}
	}
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
