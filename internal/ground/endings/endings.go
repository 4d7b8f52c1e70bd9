// Package endings sends the endings of requests to backends. A request does not wait for its own
// end.
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

// senders has a sender for each backend outside this process.
var senders = perbackend.Shared[*sender]{New: newSender}

// Await waits until b, or the backend that it wraps, has answered all endings of this process. If
// ctx ends first, it returns the error of ctx. For a backend in this process it returns at once.
func Await(ctx context.Context, b backends.Backend) error {
	if s := senders.Known(b); s != nil {
		return s.awaitIdle(ctx)
	}
	return nil
}

// Backend sends endings to a backends.Backend.
type Backend struct {
	backend backends.Backend
	via     any              // backend if it is comparable, else a pointer of its own
	sender  *sender          // nil: the backend is in this process and settles at once
	divided backends.Divided // nil: the backend has one server
}

// Of returns the Backend that sends endings to b.
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

// Waits reports whether the backend has yet to answer endings of a key.
func (s *Backend) Waits(scope, key string) bool {
	return s.sender != nil && s.sender.waits(scope, key)
}

// Remote reports whether the backend is outside this process, so that endings wait in a queue.
func (s *Backend) Remote() bool { return s.sender != nil }

// Pending returns the unanswered endings of the keys of charges.
func (s *Backend) Pending(charges []backends.Charge) []Awaited {
	if s.sender == nil {
		return nil
	}
	return s.sender.pending(charges)
}

// Await waits until endings are answered or ctx ends, and no longer than most.
func (s *Backend) Await(ctx context.Context, most time.Duration, awaited []Awaited) {
	over := time.NewTimer(most)
	defer over.Stop()
	s.sender.await(ctx, over.C, awaited)
}

// sender sends endings to a backend outside this process: to each server one call at a time, with
// the endings that wait for it. All limiters on one innermost backend share a sender.
type sender struct {
	mu         sync.Mutex
	queues     map[any]*queue // by server; each queue has a goroutine
	idle       chan struct{}  // closed when no queue is left; nil: no caller waits for it
	unanswered map[accountKey]*unanswered
}

// queue is the endings that wait for one server.
type queue struct {
	waiting []*request
	endings int // how many endings in waiting may be dropped
}

// request is the endings of one request on one server.
type request struct {
	to      *Backend
	endings []backends.Ending
	numbers []int // their indexes in the call of Send; nil: 0, 1, 2, …
	report  func(int, limits.Settlement)
}

type accountKey struct{ scope, key string }

// unanswered counts the endings of a key while some of them wait for an answer.
type unanswered struct {
	queued, answered uint64
	changed          chan struct{} // closed when answered grows; nil: no caller waits for it
}

const (
	// maxWaitingEndings is how many endings a queue holds. Releases of concurrency limits do not
	// count: there are no more than were held.
	maxWaitingEndings = 16_384

	// maxSentEndings bounds the endings of one call. The last request may exceed it.
	maxSentEndings = 1_024

	// settleTimeout ends a call that the backend does not answer.
	settleTimeout = 5 * time.Second
)

var errExited = errors.New("weir: the backend has ended the goroutine that called it")

func newSender() *sender {
	return &sender{queues: make(map[any]*queue), unanswered: make(map[accountKey]*unanswered)}
}

// awaitIdle waits until no queue is left, or ctx ends.
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

// Send settles the endings of a request, and calls report for each. For a backend outside this
// process it queues them by server and does not wait. If a queue is full, it drops the endings,
// unless one of them releases units of a concurrency limit.
func (s *Backend) Send(endings []backends.Ending, report func(int, limits.Settlement)) {
	r := &request{to: s, endings: endings, report: report}
	if s.sender == nil {
		results := make([]limits.Settlement, len(endings))
		err := call.Settle(context.Background(), s.backend, endings, results)
		for i := range results {
			r.done(i, results[i], err)
		}
		return
	}
	for server, part := range r.divide() {
		if !s.sender.queue(server, part) {
			for i := range part.endings {
				part.done(i, limits.Settlement{}, backends.ErrEndingDropped)
			}
		}
	}
}

// divide splits r by server.
func (r *request) divide() map[any]*request {
	if r.to.divided == nil {
		return map[any]*request{nil: r}
	}
	parts := make(map[any]*request)
	for i, e := range r.endings {
		server := r.to.serverOf(e)
		part := parts[server]
		if part == nil {
			part = &request{to: r.to, report: r.report}
			parts[server] = part
		}
		part.endings, part.numbers = append(part.endings, e), append(part.numbers, i)
	}
	return parts
}

// serverOf asks the backend which server an ending is for. It returns nil if the backend panics or
// returns a value that cannot be compared.
func (s *Backend) serverOf(e backends.Ending) (server any) {
	defer func() {
		if recover() != nil {
			server = nil
		}
	}()
	if server = s.divided.ServerOf(e.Scope, e.Key, e.Limit); server != nil &&
		!reflect.ValueOf(server).Comparable() {
		return nil
	}
	return server
}

// queue adds r to the queue of a server. It returns false if the queue is full.
func (s *sender) queue(server any, r *request) bool {
	droppable := r.mayBeDropped()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[server]
	if q == nil {
		q = new(queue)
		s.queues[server] = q
		go s.run(server, q)
	}
	if droppable > 0 && q.endings+droppable > maxWaitingEndings {
		return false
	}
	q.waiting = append(q.waiting, r)
	q.endings += droppable
	for i := range r.endings {
		e := &r.endings[i]
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

// mayBeDropped returns how many endings of r may be dropped: all, or none if one of them releases
// units of a concurrency limit.
func (r *request) mayBeDropped() int {
	for i := range r.endings {
		if algorithm.Of(r.endings[i].Limit.Algorithm()).Held {
			return 0
		}
	}
	return len(r.endings)
}

// run makes calls until no request waits for a server.
func (s *sender) run(server any, q *queue) {
	for batch := s.next(server, q); batch != nil; batch = s.next(server, q) {
		s.settle(server, q, &settleCall{batch: batch})
	}
}

// settle makes the call c and reports its settlements. If the backend or an observer ends the
// goroutine (runtime.Goexit), another goroutine goes on.
func (s *sender) settle(server any, q *queue, c *settleCall) {
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

// next removes the requests of the next call from the queue. All have the backend of the first. If
// none waits, next removes the queue and returns nil.
func (s *sender) next(server any, q *queue) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []*request
	kept, endings := q.waiting[:0], 0
	for _, r := range q.waiting {
		if endings >= maxSentEndings || len(batch) > 0 && r.to.via != batch[0].to.via {
			kept = append(kept, r)
			continue
		}
		batch = append(batch, r)
		endings += len(r.endings)
		q.endings -= r.mayBeDropped()
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

// settleCall is a call of Settle with the endings of a batch. It remembers how many have been
// reported.
type settleCall struct {
	batch   []*request
	made    bool
	results []limits.Settlement
	err     error
	next    int // index of the next ending to report
}

func (c *settleCall) make() {
	var all []backends.Ending
	for _, r := range c.batch {
		all = append(all, r.endings...)
	}
	c.results, c.err = make([]limits.Settlement, len(all)), errExited
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	c.err = call.Settle(ctx, c.batch[0].to.backend, all, c.results)
}

// report reports the settlement of each ending once.
func (c *settleCall) report() {
	first := 0
	for _, r := range c.batch {
		for i := range r.endings {
			if at := first + i; at >= c.next {
				c.next = at + 1
				r.done(i, c.results[at], c.err)
			}
		}
		first += len(r.endings)
	}
}

// done reports the settlement of ending i.
func (r *request) done(i int, result limits.Settlement, err error) {
	if err != nil {
		result = limits.Settlement{Err: err}
	}
	if r.numbers != nil {
		i = r.numbers[i]
	}
	r.report(i, result)
}

// answered records that the backend has answered the endings of batch.
func (s *sender) answered(batch []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range batch {
		for i := range r.endings {
			key := accountKey{r.endings[i].Scope, r.endings[i].Key}
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

// Awaited says how many endings of a charge's key a caller waits for.
type Awaited struct {
	Charge int // its index
	key    *unanswered
	n      uint64 // wait until the key has so many answered
}

// pending returns the unanswered endings of the keys of charges.
func (s *sender) pending(charges []backends.Charge) []Awaited {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unanswered) == 0 {
		return nil
	}
	var awaited []Awaited
	for i := range charges {
		if charges[i].Shadow {
			continue
		}
		if u := s.unanswered[accountKey{charges[i].Scope, charges[i].Key}]; u != nil {
			awaited = append(awaited, Awaited{i, u, u.queued})
		}
	}
	return awaited
}

// await waits until the endings are answered, ctx ends, or over fires.
func (s *sender) await(ctx context.Context, over <-chan time.Time, awaited []Awaited) {
	for _, a := range awaited {
		for {
			s.mu.Lock()
			if a.key.answered >= a.n {
				s.mu.Unlock()
				break
			}
			if a.key.changed == nil {
				a.key.changed = make(chan struct{})
			}
			changed := a.key.changed
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

// waits reports whether the backend has yet to answer endings of a key.
func (s *sender) waits(scope, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered[accountKey{scope, key}] != nil
}
