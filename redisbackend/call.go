package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The requests that wait are sent in as few calls of the script as possible: one for each
// partition. A call decides its requests one after the other, at one instant. The fixed
// cost of a call is then shared, and a key that many requests charge is read and written
// once.

const (
	// maxWeight is how many keys the requests of a call charge, at most: a script must
	// not block the server for more than a millisecond.
	maxWeight = 128

	// logWeight is how many of these keys a sliding log counts as.
	logWeight = 4

	// unitsWeight is how many units of a concurrency limit count as one more key: each is
	// written.
	unitsWeight = 8

	// maxRounds is how many requests a call decides at most, each of the equal ones
	// counted. Those after the first denial cost nothing.
	maxRounds = 2 * maxWeight
)

// call is bundles that one call of the script decides.
type call struct {
	scriptCall
	at      destination
	bundles []*bundle
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
	of    map[destination]int
	forms map[string]int // the order of requests that are not alike
	alike []*ask
	text  []byte
}

// plan makes the calls that decide some bundles, one for each destination.
func (cs *calls) plan(bundles []*bundle, locate *partitioner) {
	cs.reset()
	spare := maxRounds
	for _, c := range bundles {
		spare -= c.one().weight
	}
	for _, c := range bundles {
		a := c.one()
		more := min(c.asks.Size-1, max(0, spare)/a.weight)
		spare -= more * a.weight
		c.rounds = 1 + more
		cs.join(destinationOf(a, locate), c)
	}
	for _, k := range cs.all {
		cs.write(k)
	}
}

// planEach makes a call for each of some bundles.
func (cs *calls) planEach(bundles []*bundle) {
	cs.reset()
	for _, c := range bundles {
		cs.add(destinationOf(c.one(), nil), c)
		cs.write(cs.all[len(cs.all)-1])
	}
}

func destinationOf(a *ask, locate *partitioner) destination {
	s := destination{instant: a.instant}
	if locate != nil {
		s.partition, _, _ = (*locate)(a.keys[0]) // if the partition is unknown, the call fails
	}
	return s
}

// join adds c to the call of its destination.
func (cs *calls) join(at destination, c *bundle) {
	if len(cs.all) > 0 && cs.all[0].at == at {
		cs.all[0].bundles = append(cs.all[0].bundles, c)
		return
	}
	if i, ok := cs.of[at]; ok {
		cs.all[i].bundles = append(cs.all[i].bundles, c)
		return
	}
	cs.add(at, c)
	if cs.of == nil {
		cs.of = make(map[destination]int)
	}
	cs.of[at] = len(cs.all) - 1
}

func (cs *calls) add(at destination, c *bundle) {
	k := new(call)
	if n := len(cs.spare); n > 0 {
		k, cs.spare = cs.spare[n-1], cs.spare[:n-1]
	}
	k.at = at
	k.bundles = append(k.bundles, c)
	cs.all = append(cs.all, k)
}

func (cs *calls) reset() {
	for _, k := range cs.all {
		clear(k.bundles)
		clear(k.keys)
		clear(k.args)
		*k = call{scriptCall{keys: k.keys[:0], args: k.args[:0]}, destination{}, k.bundles[:0]}
		cs.spare = append(cs.spare, k)
	}
	clear(cs.all)
	cs.all = cs.all[:0]
	clear(cs.of)
}

// sortByForm has requests that are alike stand together.
func (cs *calls) sortByForm(bundles []*bundle) {
	if cs.forms == nil {
		cs.forms = make(map[string]int)
	}
	clear(cs.forms)
	for _, c := range bundles {
		if form := c.one().form; cs.forms[form] == 0 {
			cs.forms[form] = len(cs.forms) + 1
		}
	}
	if len(cs.forms) > 1 {
		slices.SortStableFunc(bundles, func(a, b *bundle) int { return cs.forms[a.one().form] - cs.forms[b.one().form] })
	}
}

// write writes KEYS and ARGV of take.lua.
func (cs *calls) write(k *call) {
	if len(k.bundles) > 1 {
		cs.sortByForm(k.bundles)
	}
	hasLogs, isAlone := false, len(k.bundles) == 1 && k.bundles[0].rounds == 1 && k.bundles[0].one().isOrdinary()
	if !isAlone {
		k.args = append(k.args, nil)
	}
	for rest := k.bundles; len(rest) > 0; {
		first := rest[0]
		n := 1
		for n < len(rest) && rest[n].rounds == first.rounds && rest[n].one().form == first.one().form {
			n++
		}
		a := first.one()
		cs.alike = cs.alike[:0]
		for _, c := range rest[:n] {
			k.keys = append(k.keys, c.one().keys...)
			for i, x := 0, c.asks.First; i < c.rounds; i, x = i+1, x.Next {
				cs.alike = append(cs.alike, x.Of)
			}
		}
		if isAlone {
			k.args = append(k.args, "1")
		} else {
			cs.text = append(append(cs.text[:0], modes[a.mode]...), ' ')
			cs.text = append(strconv.AppendInt(cs.text, int64(n), 10), ' ')
			cs.text = append(strconv.AppendInt(cs.text, int64(first.rounds), 10), ' ')
			k.args = append(k.args, string(strconv.AppendInt(cs.text, int64(len(a.keys)), 10)))
		}
		k.args = a.appendCharges(k.args, cs.alike)
		hasLogs, k.once = hasLogs || a.hasLogs, k.once || a.holds != nil
		rest = rest[n:]
	}
	clear(cs.alike)
	k.parts = len(k.bundles) > 1
	if !isAlone {
		k.args[0] = clockArgument(k.at.instant, hasLogs)
	}
}

// send makes the calls that decide some bundles. Each reply has an error of its own.
func (l *lane) send(ctx context.Context, cs *calls, bundles []*bundle) {
	locate := l.partitioner.Load()
	cs.plan(bundles, locate)
	l.run(ctx, cs.all)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has decided nothing, so each of its bundles is sent apart. The others keep
	// their replies.
	var apart []*bundle
	var kept []*call
	for _, k := range cs.all {
		err := k.reply.Err()
		if redis.HasErrorPrefix(err, "CROSSSLOT") && k.parts {
			learnSlots(l.partitioner, l.client)
		} else if !redis.HasErrorPrefix(err, "TRYAGAIN") || !k.parts {
			kept = append(kept, k)
			continue
		}
		apart = append(apart, k.bundles...)
	}
	if len(apart) == 0 {
		return
	}
	var again calls
	again.planEach(apart)
	l.run(ctx, again.all)
	cs.all = append(kept, again.all...)
}

func (l *lane) run(ctx context.Context, all []*call) {
	calls := make([]*scriptCall, len(all))
	for i, k := range all {
		k.once = k.once || l.once
		calls[i] = &k.scriptCall
	}
	takeScript.run(ctx, l.client, calls...)
}

// decided is the reply of a call for one bundle.
type decided struct {
	now     int64
	rounds  int   // how many it decided
	denied  bool  // the last of them was denied, and with it all others
	numbers []any // of each
}

var errShort = errors.New("the script replied with too few numbers")

// parse checks the reply and calls each for every bundle of k, with an error if its part
// of the reply is missing or wrong.
func (k *call) parse(each func(*bundle, decided, error)) {
	reply, err := k.reply.Slice()
	var now int64
	if err == nil {
		now, err = instantOf(reply)
	}
	if err != nil {
		for _, c := range k.bundles {
			each(c, decided{}, err)
		}
		return
	}
	rest := reply[1:]
	for _, c := range k.bundles {
		d := decided{now: now}
		var err error
		if d.rounds, d.denied, d.numbers, rest, err = next(rest, c.rounds, c.one().width); err != nil {
			each(c, decided{}, err)
			continue
		}
		each(c, d, nil)
	}
}

// next splits off the part of a reply that decides one bundle, of which most requests were
// to be decided.
func next(reply []any, most, width int) (rounds int, denied bool, numbers, rest []any, err error) {
	if len(reply) == 0 {
		return 0, false, nil, nil, errShort
	}
	if err, ok := reply[0].(error); ok { // of the state of a key
		return 0, false, nil, reply[1:], err
	}
	n, ok := reply[0].(int64)
	if !ok {
		return 0, false, nil, nil, fmt.Errorf("the script replied with a %T instead of a number", reply[0])
	}
	rounds, denied = int(max(n, -n)), n < 0
	if rounds < 1 || rounds > most || !denied && rounds < most {
		return 0, false, nil, nil, fmt.Errorf("the script decided %d of %d requests", rounds, most)
	}
	if len(reply) < 1+rounds*width {
		return 0, false, nil, nil, errShort
	}
	numbers, rest = reply[1:][:rounds*width], reply[1+rounds*width:]
	return rounds, denied, numbers, rest, checkNumbers(numbers, rounds*width)
}

func instantOf(reply []any) (int64, error) {
	if len(reply) == 0 {
		return 0, errShort
	}
	now, ok := reply[0].(int64)
	if !ok {
		return 0, fmt.Errorf("the script replied with a %T instead of an instant", reply[0])
	}
	return now, nil
}

// checkNumbers returns an error unless reply has so many numbers and nothing else.
func checkNumbers(reply []any, want int) error {
	if len(reply) != want {
		return fmt.Errorf("the script replied with %d numbers instead of %d", len(reply), want)
	}
	for _, number := range reply {
		if _, ok := number.(int64); !ok {
			return fmt.Errorf("the script replied with a %T instead of a number", number)
		}
	}
	return nil
}
