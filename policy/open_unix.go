//go:build unix

package policy

import "syscall"

// nonBlocking opens a named pipe without waiting for its writer.
const nonBlocking = syscall.O_NONBLOCK
