package redisbackend

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxIDs is how many ids one call of a script renews or releases: it must not block
	// the server for more than a millisecond.
	maxIDs = 500

	// maxPipelined is how many such calls are in a pipeline.
	maxPipelined = 16
)

// spanSender sends spans to the servers that keep their keys.
type spanSender struct {
	client redis.Scripter
	lanes  *lanes
	holds  *holds
}

// spanCall is one call of a script, for spans of one partition.
type spanCall struct {
	client redis.Scripter
	spans  []int // their indexes
	keyOf  []int // the index in keys of the key of each
	keys   []string
	args   []any // first of all keys, then the ids of each key
	at     map[string]int
	ids    int64
	reply  *redis.Cmd
	err    error
}

// mayHaveRun reports whether a server may have run a script although the call failed
// with err: no server replied, and a connection was there.
func mayHaveRun(err error) bool {
	var network *net.OpError
	unsent := errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errDown) || errors.As(err, &network) && network.Op == "dial"
	return err != nil && !unsent && !answers(err)
}

// send runs s on spans, with these arguments first. It returns the calls, each with its
// reply or error, and for each span the error of its call. Servers are asked at the same
// time, so that none waits for another that is silent.
func (t *spanSender) send(ctx context.Context, s script, first []any, spans []span) (calls []*spanCall, errs []error) {
	errs = make([]error, len(spans))
	planned := t.plan(ctx, first, spans, errs)
	t.sendAll(ctx, s, planned)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved, which may take longer than units are held. Its keys are then sent apart.
	apart := make(map[*lane][]*spanCall)
	for l, of := range planned {
		for _, c := range of {
			crosses := redis.HasErrorPrefix(c.err, "CROSSSLOT")
			if crosses {
				learnSlots(&t.lanes.partitioner, t.client)
			}
			if len(c.keys) > 1 && (crosses || redis.HasErrorPrefix(c.err, "TRYAGAIN")) {
				apart[l] = append(apart[l], c.apart(len(first))...)
			} else {
				calls = append(calls, c)
			}
		}
	}
	t.sendAll(ctx, s, apart)
	for _, of := range apart {
		calls = append(calls, of...)
	}
	for _, c := range calls {
		if c.err == nil {
			continue
		}
		for _, i := range c.spans {
			errs[i] = c.err
		}
	}
	return calls, errs
}

// sendAll makes calls for several servers.
func (t *spanSender) sendAll(ctx context.Context, s script, byLane map[*lane][]*spanCall) {
	var servers sync.WaitGroup
	for l, of := range byLane {
		servers.Go(func() {
			now := time.Now()
			l.noteSilence(now, t.sendToOne(ctx, s, of))
		})
	}
	servers.Wait()
}

// apart returns a call for each key of c, which has n arguments that are first of all keys.
func (c *spanCall) apart(n int) []*spanCall {
	calls := make([]*spanCall, len(c.keys))
	for i, key := range c.keys {
		at := n + i
		calls[i] = &spanCall{client: c.client, keys: []string{key}, args: append(c.args[:n:n], c.args[at]), err: errExited}
	}
	for i, index := range c.spans {
		to := calls[c.keyOf[i]]
		to.spans = append(to.spans, index)
	}
	return calls
}

// release releases spans, and returns the error of each. Nobody waits for one of several
// servers that was silent lately.
func (t *spanSender) release(ctx context.Context, spans []span) (errs []error) {
	if t.lanes.only != nil {
		_, errs = t.send(ctx, releaseScript, nil, spans)
		return errs
	}
	now := time.Now()
	errs = make([]error, len(spans))
	var some []span
	var at []int
	for i, s := range spans {
		if l, err := t.lanes.of(ctx, s.key); err == nil && l.rests(now) {
			errs[i] = errDown
			continue
		}
		some, at = append(some, s), append(at, i)
	}
	_, sent := t.send(ctx, releaseScript, nil, some)
	for i, err := range sent {
		errs[at[i]] = err
	}
	return errs
}

// plan makes the calls for spans. It sets the errors of those that have no server.
func (t *spanSender) plan(ctx context.Context, first []any, spans []span, errs []error) map[*lane][]*spanCall {
	type place struct {
		lane      *lane
		partition any
	}
	byLane := make(map[*lane][]*spanCall)
	open := make(map[place]*spanCall)
	for i, s := range spans {
		var at place
		client := t.client
		var err error
		if at.lane, err = t.lanes.of(ctx, s.key); err == nil {
			if locate := t.lanes.partitioner.Load(); locate != nil {
				at.partition, client, err = (*locate)(s.key)
			}
		}
		if err != nil {
			errs[i] = err
			continue
		}
		for from := int64(0); from < s.n; from += maxIDs {
			n := min(s.n-from, maxIDs)
			c := open[at]
			if c == nil || c.ids+n > maxIDs {
				c = &spanCall{client: client, args: append([]any(nil), first...), at: make(map[string]int), err: errExited}
				open[at] = c
				byLane[at.lane] = append(byLane[at.lane], c)
			}
			c.add(t.holds, i, span{s.key, s.first + from, n})
		}
	}
	return byLane
}

func (c *spanCall) add(h *holds, index int, s span) {
	key, ok := c.at[s.key]
	if !ok {
		key = len(c.keys)
		c.at[s.key] = key
		c.keys = append(c.keys, s.key)
		c.args = append(c.args, []byte(nil))
	}
	at := len(c.args) - len(c.keys) + key
	ids := c.args[at].([]byte)
	for i := range s.n {
		ids = h.appendID(ids, s.first+i)
	}
	c.args[at] = ids
	c.ids += s.n
	c.spans, c.keyOf = append(c.spans, index), append(c.keyOf, key)
}

// sendToOne makes the calls for one server, until it fails to answer one. It then returns
// the error.
func (t *spanSender) sendToOne(ctx context.Context, s script, calls []*spanCall) (silent error) {
	for len(calls) > 0 {
		some := calls[:min(len(calls), maxPipelined)]
		silent = sendSome(ctx, s, some)
		calls = calls[len(some):]
		if silent == nil {
			continue
		}
		for _, c := range calls {
			c.err = silent
		}
		return silent
	}
	return nil
}

// sendSome makes calls in one pipeline. It returns an error if the server did not answer.
func sendSome(ctx context.Context, s script, calls []*spanCall) (silent error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil { // of a hook of the client
			silent = panicked(v)
			for _, c := range calls {
				c.err = silent
			}
		}
	}()
	if pipe := pipelineTo(calls[0].client); pipe != nil && len(calls) > 1 {
		for _, c := range calls {
			c.reply = pipe.EvalSha(ctx, s.digest, c.keys, c.args...)
		}
		_, _ = pipe.Exec(ctx) // each command has the error, too
	}
	for _, c := range calls {
		if c.reply == nil || redis.HasErrorPrefix(c.reply.Err(), "NOSCRIPT") {
			c.reply = s.run(ctx, c.client, c.keys, c.args...)
		}
		if c.err = c.reply.Err(); !answers(c.err) {
			silent = c.err
		}
	}
	return silent
}
