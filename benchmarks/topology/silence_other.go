//go:build !unix

package topology

import "errors"

// Silence returns an error: this system cannot stop a process.
func (s *Server) Silence() error { return errors.ErrUnsupported }

// Resume ends Silence.
func (s *Server) Resume() error { return errors.ErrUnsupported }
