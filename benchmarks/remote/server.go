package remote

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server of the benchmark's own, on a free loopback port.
type Server struct {
	Addr    string
	command *exec.Cmd
	dir     string
}

// Start starts a server that persists nothing.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir, err := os.MkdirTemp("", "weir-redis")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: "127.0.0.1:" + strconv.Itoa(port), dir: dir}
	s.command = exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning")
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("the group redis needs redis-server on the PATH: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer client.Close()
	for range 500 {
		if err = client.Ping(context.Background()).Err(); err == nil {
			return s, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.Stop()
	return nil, err
}

// Stop ends the server.
func (s *Server) Stop() {
	s.command.Process.Kill()
	s.command.Wait()
	os.RemoveAll(s.dir)
}
