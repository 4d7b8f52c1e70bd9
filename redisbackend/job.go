package redisbackend

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/list"
)

// job is one question to one server: some keys, and what a script is told of them. Takings, settlements,
// give-backs, renewals and releases are jobs. A line sends them, several in a call. Its caller may
// leave before the answer; then nothing of the job is used again.
type job struct {
	ctx      context.Context // hooks of the client see its values
	script   *script
	form     string // takings of one form differ in their keys only
	apart    bool   // it is written apart: its arguments are its own
	keys     []string
	args     []any // of the script, about these keys
	instant  int64 // that the script is given; 0: it uses the server's clock
	priority priority
	weight   int  // how many keys it counts as in a call
	width    int  // numbers in its reply
	once     bool // the client does not send it again
	owner    owner

	// Set before it is answered.
	now     int64 // the instant at which it was decided; of takings only
	numbers []int64
	isLeft  bool // the script has left it for another call: it had worked for long enough
	err     error

	fate atomic.Int32

	// Guarded by the mutex of the line.
	queue    *list.List[*job] // that it waits in; nil: it does not wait
	queuedAt time.Time
	node     list.Node[*job]
}

// owner knows what a job means.
type owner interface {
	// read reads the numbers of its reply, and reports whether the script may have replied them.
	read(numbers []int64) bool

	// answer is called once the line is done with the job.
	answer()
}

// priority says which jobs a call takes first.
type priority uint8

const (
	renewing priority = iota // units that are renewed too late are given to others
	taking
	ending
)

// The fates of a job. The first to finish with it changes underWay to another.
const (
	underWay  int32 = iota
	answered        // its caller has the answer
	abandoned       // its caller left first
)

// isAwaited reports whether the caller of j is still there. It is called once, before j is answered.
func (j *job) isAwaited() bool { return j.fate.CompareAndSwap(underWay, answered) }

// abandon is called when the caller of j leaves. It reports whether no answer has come.
func (j *job) abandon() bool { return j.fate.CompareAndSwap(underWay, abandoned) }
