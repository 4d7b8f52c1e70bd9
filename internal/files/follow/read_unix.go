//go:build unix

package follow

import "syscall"

// nonBlocking makes opening a named pipe return without waiting for a writer.
const nonBlocking = syscall.O_NONBLOCK
