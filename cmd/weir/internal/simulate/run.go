package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/core"
)

// run is one pass over the logs.
type run struct {
	sides   []*plan // the policy, and the one to compare with
	logs    []*accesslog.Log
	known   *Known
	whole   bool
	maxKeys int
	replays []*replay
	total   total
	order   order
	keys    *keys
	moves   *moves // nil: no comparison

	lateStamps int64 // stamps before the window of others of their log

	tooMany atomic.Bool // there are more keys than fit into the memories of replays
	stop    bool        // stop at tooMany

	progress func() // called regularly; may be nil
}

// errTooMany means that a pass has to be repeated with more memory.
var errTooMany = errors.New("more keys than expected")

// newRun returns a pass that decides the variants.
func newRun(
	sides []*plan, known *Known, logs []*accesslog.Log, maxKeys int, variants []variant,
) (*run, error) {
	r := &run{sides: sides, logs: logs, known: known, maxKeys: maxKeys, keys: newKeys()}
	for _, l := range logs {
		r.whole = r.whole || l.Format() != "" && !l.Exact()
	}
	first := make([]int, len(sides))
	n := 0
	for i, side := range sides {
		first[i] = n
		n += len(side.rules)
		for _, rule := range side.rules {
			r.total.limits = append(r.total.limits, rule.Limit)
		}
	}
	r.total.rules, r.total.periods = make([]demand, n), make([]int64, n)
	for _, v := range variants {
		for reading := range readings {
			if reading == spread && !r.whole {
				break
			}
			p, err := newReplay(v, reading, sides[v.side].rules, first[v.side], maxKeys)
			if err != nil {
				return nil, err
			}
			r.replays = append(r.replays, p)
		}
	}
	if len(sides) > 1 && variants[0].alone < 0 {
		r.moves = &moves{}
	}
	return r, nil
}

// batchSize is the number of requests that goroutines pass on at once.
const batchSize = 1024

// batch is a group of requests for all replays.
type batch struct {
	items   []*item
	allowed [][]bool // by replay and item; nil: no comparison
	left    atomic.Int32
}

// do reads the logs and decides all requests.
func (r *run) do(ctx context.Context) error {
	var (
		consumers []chan *batch
		group     sync.WaitGroup
		done      = make(chan *batch, 4)
	)
	consume := func(each func(*batch)) {
		in := make(chan *batch, 2)
		consumers = append(consumers, in)
		group.Go(func() {
			for b := range in {
				each(b)
				if b.left.Add(-1) == 0 {
					done <- b
				}
			}
		})
	}
	consume(r.count)
	for i, p := range r.replays {
		consume(func(b *batch) {
			for j, it := range b.items {
				allowed := p.decide(it)
				if b.allowed != nil {
					b.allowed[i][j] = allowed
				}
			}
		})
	}
	batches := 0
	for range 4 {
		b := &batch{items: make([]*item, 0, batchSize)}
		if r.moves != nil {
			b.allowed = make([][]bool, len(r.replays))
			for i := range b.allowed {
				b.allowed[i] = make([]bool, batchSize)
			}
		}
		done <- b
		batches++
	}
	var free []*item
	take := func() *batch {
		b := <-done
		if r.moves != nil {
			r.moves.add(r, b)
		}
		free = append(free, b.items...)
		b.items = b.items[:0]
		return b
	}
	current := take()
	send := func() {
		current.left.Store(int32(len(consumers)))
		for _, in := range consumers {
			in <- current
		}
		current = nil
	}
	r.order.whole, r.order.most, r.order.tapes.keys = r.whole, maxWaiting, r.keys
	defer r.order.tapes.close()
	r.order.emit = func(it *item) {
		if current == nil {
			current = take()
		}
		if current.items = append(current.items, it); len(current.items) == batchSize {
			send()
		}
	}
	r.order.free = func(it *item) { free = append(free, it) }
	r.order.fresh = func() *item {
		if n := len(free); n > 0 {
			it := free[n-1]
			free = free[:n-1]
			return it
		}
		return new(item)
	}
	err := r.read(ctx)
	if err == nil {
		r.order.flush()
		err = r.order.tapes.failure()
	}
	if current != nil {
		send()
	}
	for range batches {
		take()
	}
	for _, in := range consumers {
		close(in)
	}
	group.Wait()
	for i := range r.total.rules {
		r.total.rules[i].finish()
	}
	return err
}

// source is a log with its next two requests.
type source struct {
	log     *accesslog.Log
	request *request
	item    *item // nil: end of the log
	after   *item // nil: none
	newest  int64 // the latest stamp
}

// at returns the time that s is merged by: that of its next request. If the clock was far ahead for
// one line, it is the time of the request after that.
func (s *source) at() int64 {
	if s.after != nil && s.after.at < s.item.at-window*second {
		return s.after.at
	}
	return s.item.at
}

// read reads all logs, merged by time.
func (r *run) read(ctx context.Context) error {
	var rules []core.Rule[*request]
	for _, side := range r.sides {
		rules = append(rules, side.rules...)
	}
	advance := func(s *source) {
		s.item, s.after = s.after, nil
		for s.log.Next(s.request.entry) {
			if s.request.set() {
				if stamp := s.request.entry.Stamp; stamp < s.newest-window*second {
					r.lateStamps++
				} else {
					s.newest = max(s.newest, stamp)
				}
				s.after = r.order.fresh()
				s.after.read(s.request, rules, r.keys)
				return
			}
			s.log.Reject()
		}
	}
	var sources []*source
	for _, l := range r.logs {
		if l.Format() == "" {
			continue
		}
		entry := &accesslog.Entry{Extra: make([]string, len(r.known.Extras))}
		s := &source{log: l, request: newRequest(entry, r.known.Extras)}
		advance(s)
		if advance(s); s.item != nil {
			sources = append(sources, s)
		}
	}
	for n := 0; len(sources) > 0; n++ {
		if n%batchSize == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.order.tapes.failure(); err != nil {
				return err
			}
			if r.stop && r.tooMany.Load() {
				return errTooMany
			}
			if r.progress != nil && n%(64*batchSize) == 0 {
				r.progress()
			}
		}
		earliest := 0
		for i, s := range sources[1:] {
			if s.at() < sources[earliest].at() {
				earliest = i + 1
			}
		}
		s := sources[earliest]
		r.order.push(s.item)
		if advance(s); s.item == nil {
			sources = slices.Delete(sources, earliest, earliest+1)
		}
	}
	return nil
}

// count adds a batch to the demand.
func (r *run) count(b *batch) {
	for _, it := range b.items {
		r.total.add(it)
	}
	if r.total.pairs > int64(r.maxKeys) {
		r.tooMany.Store(true)
	}
}

// replaysOf returns the replays of a side as a whole, or of one of its rules alone.
func (r *run) replaysOf(side, alone int) (replays []*replay) {
	for _, p := range r.replays {
		if p.side == side && p.alone == alone {
			replays = append(replays, p)
		}
	}
	return replays
}

// failures returns the errors of decisions, without duplicates.
func (r *run) failures() (texts []string) {
	for _, p := range r.replays {
		if p.failed > 0 && p.alone < 0 && p.reading == early {
			texts = append(texts, fmt.Sprintf("%s: %s not be decided: %v",
				visible.Name(r.sides[p.side].name), plural(p.failed, "request could", "requests could"),
				p.failure))
		}
	}
	return texts
}
