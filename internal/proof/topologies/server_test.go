// Package topologies runs weir on the servers and in the topologies that docs/redis.md has tables
// of, and measures what those tables say.
package topologies

import (
	"flag"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// programs are the servers of the tables, as .ci/install names them.
var programs = []string{"redis-server-6.2", "redis-server", "redis-server-8.2", "redis-server-8.6",
	"valkey-server-8.1", "valkey-server-9.1"}

// atOnce is how many sites run at once: their programs wait most of the time.
const atOnce = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	redis.SetLogger(&logging.VoidLogger{}) // it logs each dial to a server that a test has killed
	m.Run()
}

// title returns the name and version of a program, such as "Redis 7.0.15".
func title(t testing.TB, program string) string {
	t.Helper()
	said, err := testrun.Command(t, program, "--version").Output()
	ok(t, err)
	words := regexp.MustCompile(`^(\w+) server v=(\S+)`).FindSubmatch(said)
	if words == nil {
		t.Fatalf("%s --version: %s", program, said)
	}
	return fmt.Sprintf("%s %s", words[1], words[2])
}

// server is a process that keeps data, of a test's own.
type server struct {
	program string
	addr    string
	args    []string
	command *exec.Cmd
	exited  chan struct{} // closed once command has
	admin   *redis.Client // as the default user; it sends nothing but what a test asks for
}

// startServer starts a server on a free port of this machine and ends it with the test.
func startServer(t testing.TB, program string, args ...string) *server {
	t.Helper()
	for range tries {
		if s := newServer(t, program, t.TempDir(), args...); s.starts(t) {
			return s
		}
	}
	t.Fatalf("%s exits: %q", program, args)
	return nil
}

// tries is how often a server is started, each time on another port: other programs of this machine
// may have taken a port since it was found free.
const tries = 3

// newServer returns a server that keeps its files in a directory, and does not start it yet.
func newServer(t testing.TB, program, dir string, args ...string) *server {
	t.Helper()
	addr := freeAddr(t)
	return newAt(t, program, addr, append(arguments(addr, dir), args...)...)
}

// arguments has a server listen on addr and keep its files in a directory.
func arguments(addr, dir string) []string {
	return []string{"--port", portOf(addr), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", dir, "--loglevel", "warning", "--repl-diskless-sync-delay", "0"}
}

// newAt is newServer with all arguments given, which make it listen on addr.
func newAt(t testing.TB, program, addr string, args ...string) *server {
	t.Helper()
	s := &server{program: program, addr: addr, args: args, admin: redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	t.Cleanup(func() {
		s.admin.Close()
		if s.command != nil {
			s.kill()
		}
	})
	return s
}

// start starts the server, again if it was killed, and waits until it answers.
func (s *server) start(t testing.TB) {
	t.Helper()
	if !s.starts(t) {
		t.Fatalf("%s has exited: %q", s.program, s.args)
	}
}

// starts is start, but reports whether the server answers: it may have exited instead.
func (s *server) starts(t testing.TB) bool {
	t.Helper()
	s.command, s.exited = testrun.Command(t, s.program, s.args...), make(chan struct{})
	ok(t, s.command.Start())
	go func(command *exec.Cmd, exited chan struct{}) {
		command.Wait()
		close(exited)
	}(s.command, s.exited)
	until(t, s.program+" answers", func() bool {
		return !s.runs() || s.admin.Ping(t.Context()).Err() == nil
	})
	return s.runs()
}

// kill ends the server at once, if it runs.
func (s *server) kill() {
	s.command.Process.Kill()
	<-s.exited
}

func (s *server) runs() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// info returns the value of a line of INFO, or "" if the server has not sent it.
func (s *server) info(t testing.TB, section, name string) string {
	t.Helper()
	text, _ := s.admin.Info(t.Context(), section).Result() // "" if the server is gone
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// isMaster reports whether the server runs and is no replica.
func (s *server) isMaster(t testing.TB) bool {
	return s.runs() && s.info(t, "replication", "role") == "master"
}

// has reports whether the server is the master of a key whose name ends so.
func (s *server) has(t testing.TB, suffix string) bool {
	keys, err := s.admin.Keys(t.Context(), "*"+suffix).Result()
	return err == nil && len(keys) > 0 && s.isMaster(t)
}

// follow makes the server a replica of another one, and waits until it has all of it.
func (s *server) follow(t testing.TB, master *server) {
	t.Helper()
	ok(t, s.admin.ReplicaOf(t.Context(), "127.0.0.1", portOf(master.addr)).Err())
	until(t, "the replica follows", func() bool {
		return s.info(t, "replication", "master_link_status") == "up"
	})
}

// started is another program of a test's own, such as a proxy, that listens on addr.
func started(t testing.TB, addr, program string, args ...string) {
	t.Helper()
	command := testrun.Command(t, program, args...)
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	ok(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if t.Failed() && said.Len() > 0 {
			t.Logf("%s: %s", program, said.String())
		}
	})
	until(t, program+" listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeport.Address()
	ok(t, err)
	return addr
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// until waits until so is true, and no longer than a minute.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute later it is not so that %s", what)
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
