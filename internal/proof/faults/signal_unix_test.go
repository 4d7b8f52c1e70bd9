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
	sendSignal(t, s.command.Process.Pid, signal)
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	sendSignal(t, p.command.Process.Pid, syscall.SIGSTOP)
}
func (p *process) resume(t *testing.T) {
	t.Helper()
	sendSignal(t, p.command.Process.Pid, syscall.SIGCONT)
}

func sendSignal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// descriptors returns how many files this process may have open, and so may its
// children.
func descriptors(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<20))
}
