package client

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// queue holds the waiting calls of one bucket, first come, first served. Only the first watches the
// bucket. Every answer wakes it, and so does a call that leaves the queue.
type queue struct{ list.List[*waiter] }

// waiter is a call that waits.
type waiter struct {
	node     list.Node[*waiter]
	wake     chan struct{} // has room for one
	timer    *time.Timer
	bucket   *bucket
	since    instant // when it began to wait, minus its earlier waits
	giveUp   instant // end of MaxWait
	deadline instant // the same, or the end of the context if that is earlier
	bound    string  // which of them deadline is, as in WaitError
	path     string
	lined    bool // is in the line of its account: see line
	moves    bool // has to look up its bucket again
	err      error
}

// wakeFirst makes the first call look at the bucket again.
func (q *queue) wakeFirst() {
	if q.First != nil {
		q.First.Of.lookAgain()
	}
}

// move makes the calls for a path look up their bucket again; all calls if path is "".
func (q *queue) move(path string) {
	for n := q.First; n != nil; n = n.Next {
		if w := n.Of; path == "" || w.path == path {
			w.moves = true
			w.lookAgain()
		}
	}
}

// prefer moves the first call whose path is not a suspect to the front: see paths. It reports
// whether there is one.
func (q *queue) prefer(paths *paths) bool {
	for n := q.First; n != nil; n = n.Next {
		if !paths.suspect(n.Of.path) {
			q.Remove(n)
			q.AddFirst(n)
			q.wakeFirst()
			return true
		}
	}
	return false
}

// lookAgain wakes w.
func (w *waiter) lookAgain() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// verdict is the result of a look.
type verdict uint8

const (
	held     verdict = iota
	admitted         // and started
	hopeless         // the wait is too long, or the context has ended
)

// next decides about a call whose bucket is ready at an instant. If guessed, it may be ready
// earlier, so no call is hopeless for that instant. next is pure. A held call looks again at the
// instant that next returns, or when it is woken. A hopeless one would have to wait until then.
//
//	now 10, MaxWait ends at 40, the deadline of the context is 25
//	first, ready at 10:     admitted
//	first, ready at 20:     held until 20
//	not first, ready at 20: held until 40; the first wakes it
//	ready at 30:            hopeless, the context ends before
func (w *waiter) next(now, at instant, first, guessed bool) (verdict, instant) {
	switch {
	case first && at <= now:
		return admitted, now
	case now >= w.giveUp, at > w.deadline && at != unknown && !guessed:
		return hopeless, at
	case first:
		return held, min(at, w.giveUp)
	}
	return held, w.giveUp
}

// sleep waits for a time, until w is woken, or for the end of ctx.
func (w *waiter) sleep(ctx context.Context, d time.Duration) {
	w.timer.Reset(d)
	select {
	case <-w.wake:
	case <-w.timer.C:
	case <-ctx.Done():
	}
}

// join puts w into the queue of b. A denied call goes again: before those that have not been sent.
func (w *waiter) join(b *bucket, again bool) {
	w.bucket, w.moves = b, false
	if again {
		b.queue.AddFirst(&w.node)
	} else {
		b.queue.Add(&w.node)
	}
}

// part removes w from its queue and its line, unless it has left them. Their first calls look
// again.
func (w *waiter) part() {
	if w.bucket == nil {
		return
	}
	if w.lined {
		w.bucket.account.common.line.leave(w)
	}
	w.bucket.queue.Remove(&w.node)
	w.bucket.queue.wakeFirst()
	w.bucket = nil
}

// line holds the calls that only Options.Account holds back, each the first of its bucket. The one
// that has waited longest goes first. Only that one watches the account. A call that leaves the
// line wakes the next.
type line []*waiter

func (l *line) join(w *waiter) {
	i, _ := slices.BinarySearchFunc(*l, w, func(other, w *waiter) int {
		return cmp.Or(cmp.Compare(other.since, w.since), -1) // behind its equals
	})
	*l, w.lined = slices.Insert(*l, i, w), true
}

func (l *line) leave(w *waiter) {
	i := slices.Index(*l, w)
	*l, w.lined = slices.Delete(*l, i, i+1), false
	if i == 0 && len(*l) > 0 {
		(*l)[0].lookAgain()
	}
}

// admits makes w join or leave the line, and reports whether no other call goes before it.
func (l *line) admits(w *waiter, joins bool) bool {
	if w.lined && !joins {
		l.leave(w)
	}
	if !joins {
		return true
	}
	if !w.lined {
		l.join(w)
	}
	return (*l)[0] == w
}
