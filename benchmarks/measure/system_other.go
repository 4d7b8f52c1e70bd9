//go:build !unix

package measure

import "time"

// This system does not report preemptions: every piece of a reading counts, and times are by the
// wall clock.

func preemptions() int64 { return 0 }

func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
