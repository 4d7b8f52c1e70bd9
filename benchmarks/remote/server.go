package remote

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/freeport"
)

// Server is a redis-server of this benchmark, on a free loopback port.
type Server struct {
	Addr    string
	command *exec.Cmd
	dir     string
}

// Start starts a server without persistence.
func Start() (*Server, error) {
	addr, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp("", "weir-redis")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, dir: dir}
	s.command = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning")
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("this group needs redis-server on the PATH: %w", err)
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
