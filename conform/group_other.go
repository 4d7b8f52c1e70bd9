//go:build !unix

package conform

import "os/exec"

// inGroup does nothing: this system has no process groups.
func inGroup(*exec.Cmd) {}

// endGroup kills the process of c.
func endGroup(c *exec.Cmd, _ bool) { c.Process.Kill() }

// groupRuns is false: only the process of c is known, and it has ended.
func groupRuns(*exec.Cmd) bool { return false }

// groupMemory is unknown on this system.
func groupMemory(*exec.Cmd) (total int64, ok bool) { return 0, false }
