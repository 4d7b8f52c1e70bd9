//go:build !unix

package faults

import "testing"

func (s *server) stop(t *testing.T)   { t.Skip("no process can be stopped here") }
func (s *server) resume(t *testing.T) {}

func descriptors(t *testing.T) int { return 1 << 20 }

func (p *process) stop(t *testing.T)   { t.Skip("no process can be stopped here") }
func (p *process) resume(t *testing.T) {}
