package line

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// Job is what one script is asked about some keys of one server: a taking, settlement, give-back,
// renewal, release or reset. A line sends several jobs in one call. Their callers may leave before
// the answer; the memory of such a job is not used again.
type Job struct {
	Ctx        context.Context // hooks of the client see its values
	Script     *Script
	Verb       string // first word of the head of a grouped script, such as "take"
	IsPlain    bool   // a grouped script that has this job alone needs no head
	Form       string // takings of equal form differ only in their keys
	HasOwnArgs bool   // even jobs of equal form have other arguments
	Keys       []string
	Args       []any // of the script, about these keys
	Instant    int64 // at which the script decides; 0: it reads the server's clock
	Priority   priority
	Weight     int  // its cost, in keys
	Width      int  // how many numbers its reply has
	Once       bool // the client must not send it again
	Owner      Owner
	Replied    chan struct{} // of a job that a caller waits for: receives once it is answered

	// Set before it is answered.
	Now         int64 // of takings: the instant of the decision
	Numbers     []int64
	isPostponed bool // the script had worked for long enough and did not start it
	Err         error

	fate atomic.Int32

	// Guarded by the mutex of the line.
	queue    *list.List[*Job] // nil: it does not wait
	queuedAt time.Time
	node     list.Node[*Job]
}

// Owner interprets the reply to a job.
type Owner interface {
	// Read reads the numbers of the reply. It returns false if the script never replies them.
	Read(numbers []int64) bool

	// Answer tells the caller. The line does not use the job any more.
	Answer()
}

// reissuer is an Owner whose job may be sent a second time.
type reissuer interface {
	Owner

	// Reissue prepares the job to be sent again. The first time may have reached the server.
	Reissue()
}

// priority is the order in which a call takes jobs.
type priority uint8

const (
	Renewing priority = iota
	Taking
	ending
)

// The fate of a job is underWay until it is answered or its caller leaves, whichever comes first.
const (
	underWay int32 = iota
	answered
	abandoned
)

// IsAwaited reports whether the caller of j still waits. The line calls it once, before it answers
// j.
func (j *Job) IsAwaited() bool { return j.fate.CompareAndSwap(underWay, answered) }

// abandon marks j as abandoned by its caller. It returns false if j has been answered.
func (j *Job) abandon() bool { return j.fate.CompareAndSwap(underWay, abandoned) }

// receive reads the numbers of j, or an error about the value of its key. It returns false if
// there are too few numbers.
func (j *Job) receive(r *Reply) bool {
	j.Numbers = j.Numbers[:0]
	if j.Err = r.error(); j.Err != nil {
		return true
	}
	for len(j.Numbers) < j.Width {
		n, ok := r.Number()
		if !ok {
			return false
		}
		j.Numbers = append(j.Numbers, n)
	}
	return true
}
