// Package topology starts Redis as people run it: a Cluster, a master that Sentinel watches, and
// two servers behind HAProxy.
package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/freeport"
)

// Program is the server that is started: the environment variable SERVER, such as valkey-server.
var Program = cmp.Or(os.Getenv("SERVER"), "redis-server")

// Server is a process that listens on a loopback port.
type Server struct {
	Addr, Host, Port string
	Admin            *redis.Client // for what an operator does
	command          *exec.Cmd
	dir              string
}

// startServer starts a redis-server without persistence.
func startServer(args ...string) (*Server, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	return s, s.start(Program, append([]string{
		"--port", s.Port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir,
		"--loglevel", "warning", "--repl-diskless-sync-delay", "0",
	}, args...)...)
}

// newServer returns a server that does not run yet, in a directory of its own.
func newServer() (*Server, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-topology")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	admin := redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
	})
	return &Server{Addr: addr, Host: host, Port: port, Admin: admin, dir: dir}, nil
}

// busDistance is how far the port at which nodes of a Cluster meet is from the one for clients.
const busDistance = 10_000

// freePort returns a free address whose port for nodes of a Cluster is free, too.
func freePort() (string, error) {
	for range 100 {
		addr, err := freeport.Address()
		if err != nil {
			return "", err
		}
		host, port, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		bus, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n+busDistance)))
		if err == nil && n+busDistance < 32_768 { // above it ports of clients begin
			return addr, bus.Close()
		}
		if err == nil {
			bus.Close()
		}
	}
	return "", errors.New("topology: no pair of ports is free")
}

// start starts a program that listens on s.Addr, and waits until it does.
func (s *Server) start(program string, args ...string) error {
	s.command = exec.Command(program, args...)
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("this group needs %s on the PATH: %w", program, err)
	}
	return until(program+" listens", func() bool {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// write writes a file into the directory of s and returns its path.
func (s *Server) write(name, text string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		s.command.Process.Kill()
		s.command.Wait()
	}
}

// IsMaster reports whether the server says that it is a master.
func (s *Server) IsMaster() bool {
	return strings.Contains(s.Admin.Info(context.Background(), "replication").Val(), "role:master")
}

// LeadsToMaster reports whether a new connection to s reaches a master at once. A proxy may have
// accepted it for a server that is dead.
func (s *Server) LeadsToMaster() bool {
	const atOnce = 50 * time.Millisecond
	conn, err := net.DialTimeout("tcp", s.Addr, atOnce)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(atOnce))
	fmt.Fprint(conn, "ROLE\r\n")
	reply := make([]byte, 64)
	n, _ := conn.Read(reply)
	return strings.Contains(string(reply[:n]), "master")
}

// close ends the server and removes what it wrote.
func (s *Server) close() {
	s.Kill()
	s.Admin.Close()
	os.RemoveAll(s.dir)
}

// Rights are what docs/redis.md has a user do who decides, checks, and asks a Cluster.
const Rights = "+evalsha +eval +time +get +exists +getrange +set +del +info " +
	"+cluster|slots +cluster|info"

// allow makes the user limiter with the password secret, who has Rights.
func (s *Server) allow() error {
	rules := append([]string{"reset", "on", ">secret", "~weir:*", "-@all"}, strings.Fields(Rights)...)
	return s.Admin.ACLSetUser(context.Background(), "limiter", rules...).Err()
}

// until waits until so is true.
func until(what string, so func() bool) error {
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("topology: a minute later it is not so that %s", what)
		}
	}
	return nil
}

// StartShards starts servers that know nothing of each other.
func StartShards(n int) (shards []*Server, err error) {
	for range n {
		s, err := startServer()
		if s != nil {
			shards = append(shards, s)
		}
		if err != nil {
			CloseAll(shards...)
			return nil, err
		}
	}
	return shards, nil
}

// CloseAll ends servers.
func CloseAll(all ...*Server) {
	for _, s := range all {
		s.close()
	}
}
