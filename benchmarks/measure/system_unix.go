//go:build unix

package measure

import (
	"syscall"
	"time"
)

// preemptions returns how often the system took a processor away from a runnable thread of this
// process.
func preemptions() int64 { return int64(usage().Nivcsw) }

// processorTime returns how long threads of this process have run.
func processorTime() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u
}
