//go:build !unix

package faults

import "testing"

func (s *server) stop(t *testing.T)   { t.Skip("no process can be stopped here") }
func (s *server) resume(t *testing.T) {}

func descriptors(t *testing.T) int { return 1 << 20 }
