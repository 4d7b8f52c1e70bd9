// Package endings sends the ends of requests to backends, so that no request waits for its own.
package endings

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/perbackend"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// senders has the sender of each backend outside this process.
var senders = perbackend.Shared[*sender]{New: newSender}

// Await waits until b, or the backend that it wraps, has answered all endings of requests that
// this process has for it, or ctx has ended, whose error it then returns. A backend in this
// process has nothing to wait for.
func Await(ctx context.Context, b backends.Backend) error {
	if s := senders.Known(b); s != nil {
		return s.awaitIdle(ctx)
	}
	return nil
}

// Backend is a backend that ends what it has taken.
type Backend struct {
	backend backends.Backend
	via     any              // equal for equal backends, whatever they are
	sender  *sender          // nil: endings do not wait for anybody
	divided backends.Divided // nil: endings of several keys are sent together
}

// Of returns what ends what b has taken.
func Of(b backends.Backend) *Backend {
	s := &Backend{backend: b, via: new(byte)}
	if reflect.ValueOf(b).Comparable() {
		s.via = b
	}
	inner := backends.Innermost(b)
	s.divided, _ = inner.(backends.Divided)
	if !backends.IsInProcess(inner) {
		s.sender = senders.Of(inner)
	}
	return s
}

// Waits reports whether endings of a key wait for an answer.
func (s *Backend) Waits(scope, key string) bool { return s.sender != nil && s.sender.waits(scope, key) }

// Remote reports whether endings wait for another process.
func (s *Backend) Remote() bool { return s.sender != nil }

// Pending returns the endings of the keys of charges that the backend has not answered.
func (s *Backend) Pending(charges []backends.Charge) []Awaited {
	if s.sender == nil {
		return nil
	}
	return s.sender.pending(charges)
}

// Await waits until endings are answered or ctx has ended, for at most so long.
func (s *Backend) Await(ctx context.Context, most time.Duration, all []Awaited) {
	over := time.NewTimer(most)
	defer over.Stop()
	s.sender.await(ctx, over.C, all)
}

// sender sends the endings of requests to a backend outside this process, so that the end of a
// request waits for nobody: to each of its servers one call at a time, with all that wait. All
// limiters on one innermost backend share it.
type sender struct {
	mu         sync.Mutex
	queues     map[any]*queue // by server; each has a goroutine that lives as long as it
	idle       chan struct{}  // closed when no queue is left; nil: nobody waits for that
	unanswered map[accountKey]*unanswered
}

// queue is what waits for a server.
type queue struct {
	waiting []*sending
	endings int // of waiting, those that may be dropped
}

// sending is what one request ends on one server.
type sending struct {
	to      *Backend
	endings []backends.Ending
	of      []int // their numbers, for report; nil: 0, 1, 2
	report  func(int, limits.Settlement)
}

type accountKey struct{ scope, key string }

// unanswered counts the endings of a key while some of them wait for an answer.
type unanswered struct {
	queued, answered uint64
	changed          chan struct{} // closed when answered grows; nil: nobody waits for that
}

const (
	// maxWaitingEndings is how many endings wait for a backend. Releases of concurrency
	// limits do not count: there are no more than were held.
	maxWaitingEndings = 16_384

	// maxSentEndings is how many endings one call has at most, a request aside.
	maxSentEndings = 1_024

	// settleTimeout ends a call of a backend that does not answer.
	settleTimeout = 5 * time.Second
)

var errExited = errors.New("weir: the backend has ended the goroutine that called it")

func newSender() *sender {
	return &sender{queues: make(map[any]*queue), unanswered: make(map[accountKey]*unanswered)}
}

// awaitIdle waits until nothing is left to be sent, or ctx ends.
func (s *sender) awaitIdle(ctx context.Context) error {
	s.mu.Lock()
	if len(s.queues) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Send settles endings of a request, and calls report for each. If another process keeps what they
// are about, it queues them for each server by itself and does not wait. Where too much waits for a
// server, endings are dropped, unless one releases units of a concurrency limit.
func (s *Backend) Send(endings []backends.Ending, report func(int, limits.Settlement)) {
	what := &sending{to: s, endings: endings, report: report}
	if s.sender == nil {
		results := make([]limits.Settlement, len(endings))
		err := call.Settle(context.Background(), s.backend, endings, results)
		for i := range results {
			what.done(i, results[i], err)
		}
		return
	}
	for server, part := range what.divide() {
		if !s.sender.queue(server, part) {
			for i := range part.endings {
				part.done(i, limits.Settlement{}, backends.ErrEndingDropped)
			}
		}
	}
}

// divide returns what by its servers.
func (what *sending) divide() map[any]*sending {
	if what.to.divided == nil {
		return map[any]*sending{nil: what}
	}
	parts := make(map[any]*sending)
	for i, e := range what.endings {
		server := what.to.serverOf(e)
		part := parts[server]
		if part == nil {
			part = &sending{to: what.to, report: what.report}
			parts[server] = part
		}
		part.endings, part.of = append(part.endings, e), append(part.of, i)
	}
	return parts
}

// serverOf asks which server an ending is for. A panic, or what cannot be compared, means that it is
// not known.
func (s *Backend) serverOf(e backends.Ending) (server any) {
	defer func() {
		if recover() != nil {
			server = nil
		}
	}()
	if server = s.divided.ServerOf(e.Scope, e.Key, e.Limit); server != nil && !reflect.ValueOf(server).Comparable() {
		return nil
	}
	return server
}

// queue reports whether there was room.
func (s *sender) queue(server any, what *sending) bool {
	may := what.mayBeDropped()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[server]
	if q == nil {
		q = new(queue)
		s.queues[server] = q
		go s.run(server, q)
	}
	if may > 0 && q.endings+may > maxWaitingEndings {
		return false
	}
	q.waiting = append(q.waiting, what)
	q.endings += may
	for i := range what.endings {
		e := &what.endings[i]
		key := accountKey{e.Scope, e.Key}
		u := s.unanswered[key]
		if u == nil {
			u = new(unanswered)
			s.unanswered[key] = u
		}
		u.queued++
	}
	return true
}

// mayBeDropped returns how many endings of what may be dropped: all, or none if one of
// them releases units of a concurrency limit.
func (what *sending) mayBeDropped() int {
	for i := range what.endings {
		if algorithm.Of(what.endings[i].Limit.Algorithm()).Held {
			return 0
		}
	}
	return len(what.endings)
}

// run sends until nothing waits for a server.
func (s *sender) run(server any, q *queue) {
	for batch := s.next(server, q); batch != nil; batch = s.next(server, q) {
		s.settle(server, q, &asked{batch: batch})
	}
}

// settle makes a call and reports what became of its endings. If the backend or an observer ends the
// goroutine another one goes on.
func (s *sender) settle(server any, q *queue, c *asked) {
	returned := false
	defer func() {
		if returned {
			s.answered(c.batch)
			return
		}
		go func() {
			s.settle(server, q, c)
			s.run(server, q)
		}()
	}()
	if !c.made {
		c.made = true
		c.make()
	}
	c.report()
	returned = true
}

// next takes the requests of the next call, all to the backend of the first that waits. It returns
// nil, and removes the queue, if none waits.
func (s *sender) next(server any, q *queue) []*sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []*sending
	kept, endings := q.waiting[:0], 0
	for _, what := range q.waiting {
		if endings >= maxSentEndings || len(batch) > 0 && what.to.via != batch[0].to.via {
			kept = append(kept, what)
			continue
		}
		batch = append(batch, what)
		endings += len(what.endings)
		q.endings -= what.mayBeDropped()
	}
	clear(q.waiting[len(kept):])
	if q.waiting = kept; len(batch) > 0 {
		return batch
	}
	if delete(s.queues, server); len(s.queues) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	return nil
}

// asked is a call of Settle for the endings of a batch, and how far it has been reported.
type asked struct {
	batch   []*sending
	made    bool
	results []limits.Settlement
	err     error
	next    int // ending to report
}

func (c *asked) make() {
	var all []backends.Ending
	for _, what := range c.batch {
		all = append(all, what.endings...)
	}
	c.results, c.err = make([]limits.Settlement, len(all)), errExited
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	c.err = call.Settle(ctx, c.batch[0].to.backend, all, c.results)
}

// report reports what became of the endings, each once.
func (c *asked) report() {
	first := 0
	for _, what := range c.batch {
		for i := range what.endings {
			if at := first + i; at >= c.next {
				c.next = at + 1
				what.done(i, c.results[at], c.err)
			}
		}
		first += len(what.endings)
	}
}

// done reports what became of the i-th ending.
func (what *sending) done(i int, result limits.Settlement, err error) {
	if err != nil {
		result = limits.Settlement{Err: err}
	}
	if what.of != nil {
		i = what.of[i]
	}
	what.report(i, result)
}

// answered notes that the endings of batch do not wait any more.
func (s *sender) answered(batch []*sending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range batch {
		for i := range what.endings {
			key := accountKey{what.endings[i].Scope, what.endings[i].Key}
			u := s.unanswered[key]
			u.answered++
			if u.changed != nil {
				close(u.changed)
				u.changed = nil
			}
			if u.answered == u.queued {
				delete(s.unanswered, key)
			}
		}
	}
}

// Awaited says how many endings of the key of a charge have to be answered.
type Awaited struct {
	Charge int
	of     *unanswered
	n      uint64
}

// pending returns the endings of the keys of charges that the backend has not answered.
func (s *sender) pending(charges []backends.Charge) []Awaited {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unanswered) == 0 {
		return nil
	}
	var all []Awaited
	for i := range charges {
		if charges[i].Shadow {
			continue
		}
		if u := s.unanswered[accountKey{charges[i].Scope, charges[i].Key}]; u != nil {
			all = append(all, Awaited{i, u, u.queued})
		}
	}
	return all
}

// await waits until endings are answered, ctx has ended, or the time is over.
func (s *sender) await(ctx context.Context, over <-chan time.Time, all []Awaited) {
	for _, a := range all {
		for {
			s.mu.Lock()
			if a.of.answered >= a.n {
				s.mu.Unlock()
				break
			}
			if a.of.changed == nil {
				a.of.changed = make(chan struct{})
			}
			changed := a.of.changed
			s.mu.Unlock()
			select {
			case <-changed:
			case <-over:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// waits reports whether endings of a key wait for an answer.
func (s *sender) waits(scope, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered[accountKey{scope, key}] != nil
}
