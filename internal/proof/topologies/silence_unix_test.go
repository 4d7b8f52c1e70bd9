//go:build unix

package topologies

import (
	"syscall"
	"testing"
)

// silence has the server read and answer nothing, while its connections stay open, until the
// function that it returns is called.
func (s *server) silence(t testing.TB) (end func()) {
	t.Helper()
	ok(t, s.command.Process.Signal(syscall.SIGSTOP))
	return func() { ok(t, s.command.Process.Signal(syscall.SIGCONT)) }
}
