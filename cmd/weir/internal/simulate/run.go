package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
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

// count adds a batch to the demand.
func (r *run) count(b *batch) {
	for _, it := range b.items {
		r.total.add(it)
	}
	if r.total.pairs > int64(r.maxKeys) {
		r.tooMany.Store(true)
	}
}

// failures returns the errors of decisions, without duplicates.
func (r *run) failures() (texts []string) {
	for _, p := range r.replays {
		if p.failed > 0 && p.alone < 0 && p.reading == early {
			texts = append(texts, fmt.Sprintf("%s: %d requests could not be decided: %v",
				visible.Name(r.sides[p.side].name), p.failed, p.failure))
		}
	}
	return texts
}
