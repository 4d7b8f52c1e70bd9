//go:build unix

package topology

import "syscall"

// Silence stops the process: it answers nothing, and its connections stay.
func (s *Server) Silence() error { return s.command.Process.Signal(syscall.SIGSTOP) }

// Resume ends Silence.
func (s *Server) Resume() error { return s.command.Process.Signal(syscall.SIGCONT) }
