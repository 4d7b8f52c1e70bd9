package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Settlements, renewals and releases are sent as items. Each is about one key. A call of a script
// has the items of one partition, and a pipeline has the calls for one server. The next pipeline
// waits for the reply, so that takings of other connections come in between. Servers are asked at
// the same time: none waits for another that is silent. A call is sent again only where the server did
// not know its script, or replied that it is for several slots or for one that is half moved.

// maxItems is the weight of the items in a pipeline, at most: scripts must not block the server
// for more than a millisecond.
const maxItems = maxWeight * unitsWeight

// item is what a script is told of one key, and what it replies.
type item struct {
	key    string
	args   []any
	most   int64 // that the script may reply
	weight int   // a unit of a concurrency limit is 1, most keys are unitsWeight

	reply int64
	err   error
}

// sendItems runs a script on items, and sets the reply or the error of each. A server that was
// silent lately is sent nothing.
func (b *Backend) sendItems(ctx context.Context, s script, items []*item) {
	byLane := make(map[*lane][]*item)
	for _, it := range items {
		l, err := b.lanes.of(ctx, it.key)
		if err != nil {
			it.err = err
			continue
		}
		byLane[l] = append(byLane[l], it)
	}
	var servers sync.WaitGroup
	for l, items := range byLane {
		if l.rests(time.Now()) {
			for _, it := range items {
				it.err = errDown
			}
			continue
		}
		servers.Go(func() { b.sendItemsTo(ctx, l, s, items) })
	}
	servers.Wait()
}

// sendItemsTo is sendItems for the server of l, which is nil if it is not known. If the server is
// silent, it sends no more. A hook of the client may end the goroutine.
func (b *Backend) sendItemsTo(ctx context.Context, l *lane, s script, items []*item) {
	err := error(errExited)
	defer func() {
		if v := recover(); v != nil { // of a hook of the client
			err = panicked(v)
		}
		for _, it := range items {
			it.err = err
		}
	}()
	for len(items) > 0 {
		calls, rest := b.itemCalls(items)
		sent := time.Now()
		again, unanswered := b.makeItemCalls(ctx, s, calls)
		items = append(again, rest...)
		if unanswered != nil && l != nil && l.noteSilence(sent) {
			err = unanswered
			return
		}
	}
}

// itemCall is one call of a script, for items of one partition.
type itemCall struct {
	scriptCall
	items []*item
	again []*item // those that the script has left for another call
}

// itemCalls returns the calls of one pipeline, and the items that are left for the next.
func (b *Backend) itemCalls(items []*item) (calls []*itemCall, rest []*item) {
	locate := b.lanes.partitioner.Load()
	of := make(map[any]*itemCall) // by partition
	for weight := 0; len(items) > 0 && weight < maxItems; items = items[1:] {
		it := items[0]
		weight += it.weight
		var partition any
		if locate != nil {
			partition, _, _ = (*locate)(it.key) // if it is unknown, the call fails
		}
		if of[partition] == nil {
			of[partition] = new(itemCall)
			calls = append(calls, of[partition])
		}
		of[partition].items = append(of[partition].items, it)
	}
	return calls, items
}

// makeItemCalls makes the calls of one pipeline, and sets the reply or the error of each item. It
// returns the items that are to be sent again, and the error of a call that the server did not answer.
func (b *Backend) makeItemCalls(ctx context.Context, s script, calls []*itemCall) (again []*item, unanswered error) {
	ctx, cancel := context.WithTimeout(ctx, max(callTimeout, b.lanes.patience))
	defer cancel()
	b.runItems(ctx, s, calls)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has not run, so its items are sent apart.
	var apart []*itemCall
	for _, c := range calls {
		crosses := redis.HasErrorPrefix(c.err, "CROSSSLOT")
		if crosses {
			b.lanes.learnSlots()
		}
		if c.parts && (crosses || redis.HasErrorPrefix(c.err, "TRYAGAIN")) {
			for _, it := range c.items {
				apart = append(apart, &itemCall{items: []*item{it}})
			}
		}
	}
	b.runItems(ctx, s, apart)
	for _, c := range append(calls, apart...) {
		again = append(again, c.again...)
		if !answers(c.err) {
			unanswered = c.err
		}
	}
	return again, unanswered
}

// runItems makes calls.
func (b *Backend) runItems(ctx context.Context, s script, all []*itemCall) {
	calls := make([]*scriptCall, len(all))
	for i, c := range all {
		c.once, c.parts = true, len(c.items) > 1
		c.receiver, c.most = c, len(c.items)
		for _, it := range c.items {
			c.keys, c.args = append(c.keys, it.key), append(c.args, it.args...)
		}
		if instant := b.instant(); instant != 0 {
			c.args = append(c.args, instant)
		}
		calls[i] = &c.scriptCall
	}
	s.run(ctx, b.client, calls...)
	for _, c := range all {
		if c.err == nil {
			continue // each has a reply or an error of its own
		}
		for _, it := range c.items {
			it.reply, it.err = 0, c.err
		}
	}
}

// receive implements [receiver]. The script replies a number or an error for each item, and -1 for
// those behind the first that it leaves for another call.
func (c *itemCall) receive(r *reply) error {
	var err error
	c.again = nil
	for i, it := range c.items {
		if it.reply, it.err = 0, r.error(); it.err != nil {
			continue
		}
		n, ok := r.number()
		if !ok {
			return errForeign
		}
		switch {
		case n == -1 && i > 0:
			c.again = append(c.again, it)
		case n < 0 || n > it.most:
			it.err = errImpossible
			err = errImpossible
		default:
			it.reply = n
		}
	}
	return err
}
