//go:build unix

package conform

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// inGroup makes c the leader of a process group, so that what it starts can be ended with it.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the process group of c to end, or kills it.
func endGroup(c *exec.Cmd, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	syscall.Kill(-c.Process.Pid, signal) // fails if all have ended
}

// groupRuns reports whether a process of the group of c runs.
func groupRuns(c *exec.Cmd) bool { return syscall.Kill(-c.Process.Pid, 0) == nil }

// groupMemory returns how much memory the process group of c has, as /proc of Linux tells it.
func groupMemory(c *exec.Cmd) (total int64, ok bool) {
	group := strconv.Itoa(c.Process.Pid)
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name of the program is in parentheses, and may have some itself. State, parent and
		// group follow, and the resident pages are field 24 of all.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 22 || string(fields[2]) != group {
			continue
		}
		if pages, err := strconv.ParseInt(string(fields[21]), 10, 64); err == nil {
			total, ok = total+pages*int64(os.Getpagesize()), true
		}
	}
	return total, ok
}
