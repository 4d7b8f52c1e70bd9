package redisbackend

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The requests that wait are sent in as few calls of the script as possible: one for each
// partition. A call decides its requests one after the other, at one instant. The fixed
// cost of a call is then shared.

const (
	// maxWeight is how many keys the requests of a call charge, at most: a script must
	// not block the server for more than a millisecond.
	maxWeight = 128

	// logWeight is how many of these keys a sliding log counts as.
	logWeight = 8

	// unitsWeight is how many units of a concurrency limit count as one more key: each is
	// written.
	unitsWeight = 8
)

// call is requests that one call of the script decides.
type call struct {
	scriptCall
	at    destination
	asks  []*ask
	clock *serverInstants // nil: the instant is given
}

// destination is what the requests of a call have in common.
type destination struct {
	partition any // that keeps their keys; nil: there is only one
	instant   int64
}

// calls are the calls of one pipeline, and memory for making them that is reused.
type calls struct {
	all   []*call
	spare []*call
	of    map[destination]*call // nil if there is one
	forms map[string]int        // the order of requests that are not alike
	text  []byte
}

// plan makes the calls that decide some requests, one for each destination.
func (cs *calls) plan(asks []*ask, locate *partitioner) {
	cs.reset()
	for _, a := range asks {
		at := destination{instant: a.mode.instant}
		if locate != nil {
			at.partition, _, _ = (*locate)(a.accounts[0].name) // if it is unknown, the call fails
		}
		k := cs.to(at)
		k.asks = append(k.asks, a)
	}
	for _, k := range cs.all {
		cs.write(k)
	}
}

// to returns the call for a destination.
func (cs *calls) to(at destination) *call {
	if len(cs.all) > 0 && cs.all[0].at == at {
		return cs.all[0]
	} else if k := cs.of[at]; k != nil {
		return k
	}
	k := cs.add(at)
	if len(cs.all) > 1 {
		if cs.of == nil {
			cs.of = make(map[destination]*call)
		}
		cs.of[at] = k
	}
	return k
}

func (cs *calls) add(at destination) *call {
	var k *call
	if n := len(cs.spare); n > 0 {
		k, cs.spare = cs.spare[n-1], cs.spare[:n-1]
	} else {
		k = new(call)
	}
	k.at = at
	cs.all = append(cs.all, k)
	return k
}

func (cs *calls) reset() {
	for _, k := range cs.all {
		clear(k.asks)
		clear(k.keys)
		clear(k.args)
		*k = call{scriptCall{keys: k.keys[:0], args: k.args[:0]}, destination{}, k.asks[:0], nil}
		cs.spare = append(cs.spare, k)
	}
	clear(cs.all)
	cs.all = cs.all[:0]
	clear(cs.of)
}

// sortByForm has requests that are alike stand together.
func (cs *calls) sortByForm(asks []*ask) {
	if cs.forms == nil {
		cs.forms = make(map[string]int)
	}
	clear(cs.forms)
	for _, a := range asks {
		if cs.forms[a.form] == 0 {
			cs.forms[a.form] = len(cs.forms) + 1
		}
	}
	if len(cs.forms) > 1 {
		slices.SortStableFunc(asks, func(a, b *ask) int { return cs.forms[a.form] - cs.forms[b.form] })
	}
}

// write writes KEYS and ARGV of take.lua.
func (cs *calls) write(k *call) {
	k.parts = len(k.asks) > 1
	if a := k.asks[0]; !k.parts && a.mode == (mode{}) && !a.hasLogs {
		k.args = append(k.args, "1")
		cs.writeAlike(k, k.asks)
		return
	}
	cs.sortByForm(k.asks)
	k.args = append(k.args, nil)
	for rest := k.asks; len(rest) > 0; {
		a, n := rest[0], 1
		for n < len(rest) && rest[n].form == a.form {
			n++
		}
		cs.text = append(append(cs.text[:0], a.mode.name()...), ' ')
		cs.text = append(strconv.AppendInt(cs.text, int64(n), 10), ' ')
		k.args = append(k.args, string(strconv.AppendInt(cs.text, int64(len(a.accounts)), 10)))
		cs.writeAlike(k, rest[:n])
		rest = rest[n:]
	}
	if k.args[0] = "server"; k.at.instant != 0 {
		k.args[0] = k.at.instant
	}
}

// writeAlike appends the keys of requests that are alike, and what each of them charges.
func (cs *calls) writeAlike(k *call, alike []*ask) {
	for _, a := range alike {
		for i := range a.accounts {
			k.keys = append(k.keys, a.accounts[i].name)
		}
	}
	first, span := alike[0], 0
	for i := range first.accounts {
		of := &first.accounts[i]
		var units any = of.Enforced
		if held := first.holds != nil && of.isConcurrent(); held || !of.enforces || of.HasShadow || of.settles {
			text := of.appendUnits(cs.text[:0])
			if held {
				text = append(text, '#')
				for _, a := range alike {
					text = a.holds.appendID(text, a.spans[span].first)
				}
				k.once = true
				span++
			}
			units, cs.text = string(text), text
		}
		k.args = append(k.args, of.limit.text, units)
	}
}

// send makes the calls that decide some requests. Each reply has an error of its own.
func (l *lane) send(ctx context.Context, cs *calls, asks []*ask) {
	cs.plan(asks, l.all.partitioner.Load())
	l.run(ctx, cs.all)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has decided nothing, so each of its requests is sent apart. The others keep
	// their replies.
	var apart []*ask
	for _, k := range cs.all {
		err := k.err
		if err == nil { // HasErrorPrefix allocates
			continue
		}
		crosses := redis.HasErrorPrefix(err, "CROSSSLOT")
		if k.parts && crosses {
			l.all.learnSlots()
		}
		if k.parts && (crosses || redis.HasErrorPrefix(err, "TRYAGAIN")) {
			apart = append(apart, k.asks...)
			k.asks = k.asks[:0]
		}
	}
	if sent := len(cs.all); len(apart) > 0 {
		for _, a := range apart {
			k := cs.add(destination{instant: a.mode.instant})
			k.asks = append(k.asks, a)
			cs.write(k)
		}
		l.run(ctx, cs.all[sent:])
	}
	for wait := firstWait; wait <= lastWait && l.sendAgain(ctx, cs, wait); wait *= 2 {
	}
}

// A request that charges several keys of a slot that is half moved is sent again after firstWait, after
// twice as long, and so on up to lastWait.
const (
	firstWait = 8 * time.Millisecond
	lastWait  = 4 * firstWait
)

// sendAgain makes the calls of such requests again after a wait, and reports whether there are any.
func (l *lane) sendAgain(ctx context.Context, cs *calls, wait time.Duration) bool {
	var again []*call
	for _, k := range cs.all {
		if len(k.asks) > 0 && redis.HasErrorPrefix(k.err, "TRYAGAIN") {
			again = append(again, k)
		}
	}
	if len(again) == 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	for _, k := range again {
		k.command, k.err = nil, nil
	}
	l.run(ctx, again)
	return true
}

func (l *lane) run(ctx context.Context, all []*call) {
	calls := make([]*scriptCall, len(all))
	for i, k := range all {
		k.once = k.once || l.all.once
		k.expect(&l.instants)
		calls[i] = &k.scriptCall
	}
	takeScript.run(ctx, l.all.client, calls...)
}

// expect sets what the reply to k may be. The clock is that of the server.
func (k *call) expect(clock *serverInstants) {
	k.receiver, k.most = k, 1
	if k.at.instant == 0 {
		k.clock = clock
	}
	for _, a := range k.asks {
		k.most += a.width
	}
}

// outcome says whether the server answered a call, whether one decided, and the latest error.
func (cs *calls) outcome() (answered, decided bool, latest error) {
	for _, k := range cs.all {
		if len(k.asks) == 0 {
			continue // its requests were sent apart
		}
		err := k.err
		decided = decided || err == nil
		if answered = answered || answers(err); err != nil {
			latest = err
		}
	}
	return answered, decided, latest
}

// fail sets the error of every request whose call has no reply.
func (cs *calls) fail() {
	for _, k := range cs.all {
		if k.err == nil {
			continue // each has a decision or an error of its own
		}
		for _, a := range k.asks {
			a.err = k.err
		}
	}
}

// receive implements [receiver]: it sets the decision or the error of every request.
func (k *call) receive(r *reply) error {
	now, err := readInstant(r, k.clock)
	if err != nil {
		return err
	}
	for _, a := range k.asks {
		a.now = now
		if !a.receive(r) {
			return errForeign
		}
	}
	if !r.hasEnded() || k.at.instant != 0 && k.at.instant != now {
		return errForeign
	}
	for _, a := range k.asks {
		if a.err == nil && !arePossible(a.accounts, a.numbers) {
			a.err = errImpossible
			err = errImpossible
		}
	}
	return err
}

// receive reads the numbers of a, or its error, which is about the state of a key. It reports
// whether there are as many numbers as there have to be.
func (a *ask) receive(r *reply) bool {
	a.numbers = a.numbers[:0]
	if a.err = r.error(); a.err != nil {
		return true
	}
	for len(a.numbers) < a.width {
		n, ok := r.number()
		if !ok {
			return false
		}
		a.numbers = append(a.numbers, n)
	}
	return true
}
