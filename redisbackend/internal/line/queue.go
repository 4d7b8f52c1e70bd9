package line

import (
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// Queue holds the jobs that wait for one server. It knows neither calls nor their outcome; the lock
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
// waits in lists[1], behind 32 requests and not behind 1,000. A call has room for MaxWeight = 128
// keys. If all three lists of takings are full, the call takes 112 keys from lists[1], 14 from
// lists[2] and 2 from lists[3], so that each list advances.
type Queue struct {
	lists           [4]list.List[*Job]
	weight          int // of all jobs in lists
	endings         list.List[*Job]
	endingCalls     int            // calls under way that send endings
	endingsWereLast bool           // the latest call sent endings
	waiting         map[string]int // how many jobs in lists have a key, by its name
}

const (
	// MaxWeight is the weight, in keys, at which a call is full: scripts must not block the server
	// for more than a millisecond.
	MaxWeight = 128

	// busyKey is how many jobs must wait for a key to make it busy.
	busyKey = 32
)

// add queues j. Each busy key moves a taking one list back.
func (q *Queue) add(j *Job, now time.Time) {
	j.queuedAt, j.node.Of = now, j
	place := 0
	if j.Priority == Taking {
		place = 1
		for _, key := range j.Keys {
			if q.IsBusy(key) && place < 3 {
				place++
			}
		}
	}
	j.queue = &q.lists[place]
	if j.Priority == ending {
		j.queue = &q.endings
	}
	j.queue.Add(&j.node)
	q.count(j, 1)
}

// remove removes j.
func (q *Queue) remove(j *Job) {
	j.queue.Remove(&j.node)
	j.queue = nil
	q.count(j, -1)
}

// count adds j to the counts of waiting jobs, or with sign -1 subtracts it. Endings are not
// counted: they return units, so they make no key busy.
func (q *Queue) count(j *Job, sign int) {
	if j.Priority == ending {
		return
	}
	q.weight += sign * j.Weight
	for _, key := range j.Keys {
		if q.waiting[key] += sign; q.waiting[key] == 0 {
			delete(q.waiting, key)
		}
	}
}

// IsBusy reports whether many jobs wait for a key.
func (q *Queue) IsBusy(key string) bool { return q.waiting[key] >= busyKey }

// next returns whether the next call sends endings, and whether any waiting job may be sent. While
// others wait, every second call sends endings, one at a time. Otherwise endings may use half of
// the most calls that there may be.
func (q *Queue) next(maxCalls int) (ends, waits bool) {
	endingsWait := q.endings.First != nil
	if q.weight > 0 {
		return endingsWait && q.endingCalls == 0 && !q.endingsWereLast, true
	}
	return true, endingsWait && q.endingCalls < (maxCalls+1)/2
}

// collect moves waiting jobs to jobs, as many as one call may send: either endings or all others.
// So no decision waits for a settlement in the same pipeline.
func (q *Queue) collect(jobs []*Job, ends bool) []*Job {
	weight := 0
	take := func(from *list.List[*Job], most int) {
		for from.First != nil && weight < most {
			j := from.First.Of
			weight += j.Weight
			q.remove(j)
			jobs = append(jobs, j)
		}
	}
	q.endingsWereLast = ends
	if ends {
		take(&q.endings, MaxWeight)
		q.endingCalls++
		return jobs
	}
	for i := range q.lists {
		most := MaxWeight - (MaxWeight-weight)/8 // so that the lists behind advance too
		if i == len(q.lists)-1 {
			most = MaxWeight
		}
		take(&q.lists[i], most)
	}
	return jobs
}

// RemoveIf removes the jobs that wait since before an instant and that ends reports true for.
func (q *Queue) RemoveIf(before time.Time, ends func(*Job) bool) (removed []*Job) {
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
