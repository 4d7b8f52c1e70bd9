//go:build unix

package measure

import (
	"syscall"
	"time"
)

// preemptions returns how often the system has taken a processor away from a
// thread of this process that could have gone on.
func preemptions() int64 { return int64(usage().Nivcsw) }

// processorTime returns for how long threads of this process have run.
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
