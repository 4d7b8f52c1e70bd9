package redisbackend

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// queue holds the jobs that wait for one server. It knows neither calls nor their outcome; the lock
// of its line guards it. A call takes jobs in this order:
//
//	lists[0]    renewals: a unit that is renewed too late is given to another process
//	lists[1]    takings of keys that are not busy
//	lists[2]    takings of one busy key
//	lists[3]    takings of several busy keys
//	endings     settlements, releases, give-backs: in calls of their own
//
// A key is busy once busyKey jobs wait for it. Suppose that a client floods key A with 1,000
// requests. The first 32 wait in lists[1], the other 968 in lists[2]. A request for key B then
// waits in lists[1], behind 32 requests and not behind 1,000. A call has room for maxWeight = 128
// keys. If all three lists of takings are full, the call takes 112 keys from lists[1], 14 from
// lists[2] and 2 from lists[3], so that each list advances.
type queue struct {
	lists           [4]list.List[*job]
	weight          int // of all jobs in lists
	endings         list.List[*job]
	endingCalls     int            // calls under way that send endings
	endingsWereLast bool           // the latest call sent endings
	waiting         map[string]int // how many jobs in lists have a key, by its name
}

// busyKey is how many jobs must wait for a key to make it busy.
const busyKey = 32

// add queues j. Each busy key moves a taking one list back.
func (q *queue) add(j *job, now time.Time) {
	j.queuedAt, j.node.Of = now, j
	place := 0
	if j.priority == taking {
		place = 1
		for _, key := range j.keys {
			if q.isBusy(key) && place < 3 {
				place++
			}
		}
	}
	j.queue = &q.lists[place]
	if j.priority == ending {
		j.queue = &q.endings
	}
	j.queue.Add(&j.node)
	q.count(j, 1)
}

// remove removes j.
func (q *queue) remove(j *job) {
	j.queue.Remove(&j.node)
	j.queue = nil
	q.count(j, -1)
}

// count adds j to the counts of waiting jobs, or with sign -1 subtracts it. Endings are not
// counted: they return units, so they make no key busy.
func (q *queue) count(j *job, sign int) {
	if j.priority == ending {
		return
	}
	q.weight += sign * j.weight
	for _, key := range j.keys {
		if q.waiting[key] += sign; q.waiting[key] == 0 {
			delete(q.waiting, key)
		}
	}
}

// isBusy reports whether many jobs wait for a key.
func (q *queue) isBusy(key string) bool { return q.waiting[key] >= busyKey }

// next returns whether the next call sends endings, and whether any waiting job may be sent. While
// others wait, every second call sends endings, one at a time. Otherwise endings may use half of
// the most calls that there may be.
func (q *queue) next(maxCalls int) (ends, waits bool) {
	endingsWait := q.endings.First != nil
	if q.weight > 0 {
		return endingsWait && q.endingCalls == 0 && !q.endingsWereLast, true
	}
	return true, endingsWait && q.endingCalls < (maxCalls+1)/2
}

// collect moves waiting jobs to jobs, as many as one call may send: either endings or all others.
// So no decision waits for a settlement in the same pipeline.
func (q *queue) collect(jobs []*job, ends bool) []*job {
	weight := 0
	take := func(from *list.List[*job], most int) {
		for from.First != nil && weight < most {
			j := from.First.Of
			weight += j.weight
			q.remove(j)
			jobs = append(jobs, j)
		}
	}
	q.endingsWereLast = ends
	if ends {
		take(&q.endings, maxWeight)
		q.endingCalls++
		return jobs
	}
	for i := range q.lists {
		most := maxWeight - (maxWeight-weight)/8 // so that the lists behind advance too
		if i == len(q.lists)-1 {
			most = maxWeight
		}
		take(&q.lists[i], most)
	}
	return jobs
}

// removeIf removes the jobs that wait since before an instant and that ends reports true for.
func (q *queue) removeIf(before time.Time, ends func(*job) bool) (removed []*job) {
	for i := range q.lists {
		for node := q.lists[i].First; node != nil; {
			next := node.Next
			if j := node.Of; j.queuedAt.Before(before) && ends(j) {
				q.remove(j)
				removed = append(removed, j)
			}
			node = next
		}
	}
	return removed
}

// job is what one script is asked about some keys of one server: a taking, settlement, give-back,
// renewal, release or reset. A line sends several jobs in one call. Their callers may leave before
// the answer; the memory of such a job is not used again.
type job struct {
	ctx        context.Context // hooks of the client see its values
	script     *script
	form       string // takings of equal form differ only in their keys
	hasOwnArgs bool   // even jobs of equal form have other arguments
	keys       []string
	args       []any // of the script, about these keys
	instant    int64 // at which the script decides; 0: it reads the server's clock
	priority   priority
	weight     int  // its cost, in keys
	width      int  // how many numbers its reply has
	once       bool // the client must not send it again
	owner      owner

	// Set before it is answered.
	now         int64 // of takings: the instant of the decision
	numbers     []int64
	isPostponed bool // the script had worked for long enough and did not start it
	err         error

	fate atomic.Int32

	// Guarded by the mutex of the line.
	queue    *list.List[*job] // nil: it does not wait
	queuedAt time.Time
	node     list.Node[*job]
}

// owner interprets the reply to a job.
type owner interface {
	// read reads the numbers of the reply. It returns false if the script never replies them.
	read(numbers []int64) bool

	// answer tells the caller. The line does not use the job any more.
	answer()
}

// priority is the order in which a call takes jobs.
type priority uint8

const (
	renewing priority = iota
	taking
	ending
)

// The fate of a job is underWay until it is answered or its caller leaves, whichever comes first.
const (
	underWay int32 = iota
	answered
	abandoned
)

// isAwaited reports whether the caller of j still waits. The line calls it once, before it answers
// j.
func (j *job) isAwaited() bool { return j.fate.CompareAndSwap(underWay, answered) }

// abandon marks j as abandoned by its caller. It returns false if j has been answered.
func (j *job) abandon() bool { return j.fate.CompareAndSwap(underWay, abandoned) }
