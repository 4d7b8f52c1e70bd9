//go:build unix

package faults

import (
	"syscall"
	"testing"
)

// stop stops the process of the server where it is; resume lets it go on.
func (s *server) stop(t *testing.T)   { s.signal(t, syscall.SIGSTOP) }
func (s *server) resume(t *testing.T) { s.signal(t, syscall.SIGCONT) }

func (s *server) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.command.Process.Pid, signal); err != nil {
		t.Fatal(err)
	}
}
