//go:build unix

package policy

import "syscall"

// nonBlocking makes opening a named pipe return without waiting for a writer.
const nonBlocking = syscall.O_NONBLOCK
