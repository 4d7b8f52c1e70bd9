package faults

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// server is a redis-server of a test's own, which may die and come back.
type server struct {
	addr    string
	bus     string // the port at which nodes of a Cluster talk to each other
	dir     string
	args    []string
	command *exec.Cmd
	exited  chan struct{} // closed when command has ended
}

// startServer starts a redis-server on a free loopback port and ends it with the test.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{dir: t.TempDir(), args: args}
	t.Cleanup(s.kill)
	for range 20 {
		s.addr = freeAddr(t)
		if s.start(t) == nil {
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// start starts the server anew, on its address and in its directory, and waits
// until it replies, be it with an error. It fails if the server ends instead.
func (s *server) start(t testing.TB, more ...string) error {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir, "--loglevel", "warning",
	}, s.args...)
	s.command, s.exited = redisServer(t, append(args, more...)...), make(chan struct{})
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func(command *exec.Cmd, exited chan struct{}) {
		command.Wait()
		close(exited)
	}(s.command, s.exited)
	replies := false
	eventually(t, "redis-server replies", func() bool {
		replies = s.replies()
		return replies || s.dead()
	})
	if !replies {
		return errors.New("redis-server has ended")
	}
	return nil
}

// redisServer returns the command that starts redis-server. A short run skips the test.
func redisServer(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	testrun.FullOnly(t, "faults of real servers")
	return testrun.Command(t, "redis-server", args...)
}

// restart is start for a server that has been up on this address.
func (s *server) restart(t testing.TB, more ...string) {
	t.Helper()
	if err := s.start(t, more...); err != nil {
		t.Fatal(err)
	}
}

// replies reports whether the server says anything to a PING.
func (s *server) replies() bool {
	conn, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(conn, "PING\r\n")
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")
}

func (s *server) dead() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// kill is kill -9, if the server runs.
func (s *server) kill() {
	if s.command != nil {
		s.command.Process.Kill()
		<-s.exited
	}
}

// operator returns a client for what an operator does to the server.
func (s *server) operator(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return client
}

// must fails the test if the command of an operator failed.
func must(t testing.TB, command redis.Cmder) {
	t.Helper()
	if err := command.Err(); err != nil {
		t.Fatalf("%s: %v", command.Name(), err)
	}
}

// freeAddr returns a free address outside the range from which the system takes
// the ports of outgoing connections, so that it stays free while a server is
// down.
func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// patience is how long to wait for what must happen in the end. Nothing that
// works comes near it on any machine.
const patience = time.Minute

// eventually waits until condition is true.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !poll(condition) {
		t.Fatalf("waited %v in vain: %s", patience, what)
	}
}

// poll asks for a condition until it holds. It returns false if that takes longer than patience.
func poll(condition func() bool) bool {
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// beforeRedis7 reports whether redis-server is Redis 6 or one derived from it.
func beforeRedis7(t testing.TB) bool {
	t.Helper()
	version, err := redisServer(t, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(version), " v=6.")
}

// startNode starts a server of a Cluster.
func startNode(t testing.TB, args ...string) *server {
	t.Helper()
	args = append([]string{"--cluster-enabled", "yes"}, args...)
	if !beforeRedis7(t) {
		_, bus, _ := net.SplitHostPort(freeAddr(t))
		s := startServer(t, append(args, "--cluster-port", bus)...)
		s.bus = bus
		return s
	}
	s := startServer(t, args...)
	_, port, _ := net.SplitHostPort(s.addr)
	n, _ := strconv.Atoi(port)
	s.bus = strconv.Itoa(n + 10_000)
	return s
}
