package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// What waits is sent in as few calls of the script as can be: one, unless the keys
// are kept in several places. A call decides its requests one after the other, at
// one instant. It pays once for what every call costs, and reads and writes a key
// once that many of its requests charge.

const (
	// maxWeight is how many keys the requests of a call charge: a script must not
	// hold the server up for more than a millisecond.
	maxWeight = 128

	// logWeight is what a sliding log counts for among them.
	logWeight = 4

	// maxRounds is how many requests a call decides at most, equal ones counted.
	// Those after the first denial cost nothing.
	maxRounds = 2 * maxWeight
)

// call is crowds that one call of the script decides.
type call struct {
	at     site
	crowds []*crowd
	keys   []string
	args   []any
	reply  *redis.Cmd
}

// site is what the requests of a call have in common.
type site struct {
	place   any // where their keys are kept; nil: there is one place
	instant int64
}

// calls are those of a pipeline, and the memory to make them.
type calls struct {
	all   []call
	of    map[site]int
	forms map[string]int
	text  []byte // of a form
	list  []byte
	names []byte
}

// plan makes the calls that decide some crowds.
func (cs *calls) plan(crowds []*crowd, where *placement) {
	cs.reset()
	spare := maxRounds
	for _, c := range crowds {
		spare -= c.one().weight
	}
	for _, c := range crowds {
		a := c.one()
		more := min(c.asks.size-1, max(0, spare)/a.weight)
		spare -= more * a.weight
		c.rounds = 1 + more
		cs.join(siteOf(a, where), c)
	}
	for i := range cs.all {
		cs.write(&cs.all[i])
	}
}

// planEach makes a call for each of some crowds.
func (cs *calls) planEach(crowds []*crowd) {
	cs.reset()
	for _, c := range crowds {
		cs.add(siteOf(c.one(), nil), c)
		cs.write(&cs.all[len(cs.all)-1])
	}
}

func siteOf(a *ask, where *placement) site {
	s := site{instant: a.instant}
	if where != nil {
		s.place, _, _ = (*where)(a.keys[0]) // where nobody knows, the call fails
	}
	return s
}

// join adds c to the call of its site.
func (cs *calls) join(at site, c *crowd) {
	if len(cs.all) > 0 && cs.all[0].at == at {
		cs.all[0].crowds = append(cs.all[0].crowds, c)
		return
	}
	if i, ok := cs.of[at]; ok {
		cs.all[i].crowds = append(cs.all[i].crowds, c)
		return
	}
	cs.add(at, c)
	if cs.of == nil {
		cs.of = make(map[site]int)
	}
	cs.of[at] = len(cs.all) - 1
}

func (cs *calls) add(at site, c *crowd) {
	if n := len(cs.all); n < cap(cs.all) {
		cs.all = cs.all[:n+1]
	} else {
		cs.all = append(cs.all, call{})
	}
	k := &cs.all[len(cs.all)-1]
	k.at = at
	k.crowds = append(k.crowds, c)
}

func (cs *calls) reset() {
	for i := range cs.all {
		k := &cs.all[i]
		clear(k.crowds)
		clear(k.keys)
		clear(k.args)
		*k = call{crowds: k.crowds[:0], keys: k.keys[:0], args: k.args[:0]}
	}
	cs.all = cs.all[:0]
	clear(cs.of)
}

// isSingle reports whether one request is all that k decides.
func (k *call) isSingle() bool { return len(k.crowds) == 1 && k.crowds[0].asks.size == 1 }

// write writes KEYS and ARGV of take.lua.
func (cs *calls) write(k *call) {
	if k.isSingle() {
		a := k.crowds[0].one()
		k.keys, k.args = append(k.keys, a.keys...), append(k.args, a.args...)
		return
	}
	if cs.forms == nil {
		cs.forms = make(map[string]int)
	}
	clear(cs.forms)
	list, forms := cs.list[:0], cs.names[:0]
	for _, c := range k.crowds {
		a := c.one()
		k.keys = append(k.keys, a.keys...)
		cs.text = a.appendForm(cs.text[:0])
		form, ok := cs.forms[string(cs.text)]
		if !ok {
			form = len(cs.forms) + 1
			cs.forms[string(cs.text)] = form
			if len(forms) > 0 {
				forms = append(forms, '|')
			}
			forms = append(forms, cs.text...)
		}
		list = strconv.AppendInt(list, int64(form), 10)
		if c.rounds > 1 {
			list = append(list, 'x')
			list = strconv.AppendInt(list, int64(c.rounds), 10)
		}
		list = append(list, ' ')
	}
	cs.list, cs.names = list, forms
	what := "batch"
	if k.at.instant != 0 {
		what += " " + strconv.FormatInt(k.at.instant, 10)
	}
	k.args = append(k.args, what, string(list), string(forms))
}

// appendForm appends what a charges, and how, but not whom.
func (a *ask) appendForm(to []byte) []byte {
	to = append(to, modes[a.mode]...)
	for i := range a.keys {
		to = append(to, ' ')
		to = append(to, a.args[2*i].(string)...)
		to = append(to, '=')
		switch units := a.args[2*i+1].(type) {
		case int64:
			to = strconv.AppendInt(to, units, 10)
		case string:
			to = append(to, units...)
		}
	}
	return to
}

// decided is what a call says of a crowd.
type decided struct {
	now     int64
	rounds  int   // how many it decided
	denied  bool  // the last of them, and so all others
	numbers []any // of each
}

var errShort = errors.New("the script replied with too few numbers")

// parse checks what the script replied, of k's crowds one after the other. Those of
// which it says nothing get an error.
func (k *call) parse(each func(*crowd, decided, error)) {
	reply, err := k.reply.Slice()
	var now int64
	if err == nil {
		now, err = instantOf(reply)
	}
	if err != nil {
		for _, c := range k.crowds {
			each(c, decided{}, err)
		}
		return
	}
	rest := reply[1:]
	if k.isSingle() {
		c, d := k.crowds[0], decided{now: now, rounds: 1, numbers: rest}
		each(c, d, checkNumbers(rest, c.one().width))
		return
	}
	for _, c := range k.crowds {
		d := decided{now: now}
		var err error
		if d.rounds, d.denied, d.numbers, rest, err = next(rest, c.rounds, c.one().width); err != nil {
			each(c, decided{}, err)
			continue
		}
		each(c, d, nil)
	}
}

// next takes what a reply says of a crowd of which a number of requests, at most, are
// decided.
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

// checkNumbers returns what is wrong with a part of a reply.
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

// send makes the calls that decide some crowds: one command, or a pipeline. Each
// reply has its own error.
func (l *lane) send(ctx context.Context, cs *calls, crowds []*crowd) {
	where := l.where.Load()
	cs.plan(crowds, where)
	l.exec(ctx, cs.all)
	// A Cluster does not take a call for keys of several slots, or of one that is
	// just being moved. Such a call has decided nothing.
	var apart []*crowd
	for i := range cs.all {
		k := &cs.all[i]
		if len(k.crowds) == 1 {
			continue
		}
		switch err := k.reply.Err(); {
		case redis.HasErrorPrefix(err, "CROSSSLOT"):
			if hiding, ok := l.client.(processor); ok && where == nil {
				by := bySlot(hiding)
				l.where.CompareAndSwap(nil, &by)
			}
			fallthrough
		case redis.HasErrorPrefix(err, "TRYAGAIN"):
			apart = append(apart, k.crowds...)
		}
	}
	if len(apart) == 0 {
		return
	}
	// The others keep their replies.
	var again calls
	again.planEach(apart)
	l.exec(ctx, again.all)
	kept := cs.all[:0:0]
	for _, k := range cs.all {
		if len(k.crowds) == 1 || !redis.HasErrorPrefix(k.reply.Err(), "CROSSSLOT") && !redis.HasErrorPrefix(k.reply.Err(), "TRYAGAIN") {
			kept = append(kept, k)
		}
	}
	cs.all = append(kept, again.all...)
}

// exec makes calls.
func (l *lane) exec(ctx context.Context, all []call) {
	if len(all) == 1 || !l.pipeline(ctx, all) {
		for i := range all {
			all[i].reply = takeScript.run(ctx, l.client, all[i].keys, all[i].args...)
		}
		return
	}
	for i := range all {
		if redis.HasErrorPrefix(all[i].reply.Err(), "NOSCRIPT") {
			l.teach(ctx, all)
			return
		}
	}
}

// pipeline sends the calls that have no reply, and reports whether the client can
// send several at once.
func (l *lane) pipeline(ctx context.Context, all []call) bool {
	pipe := pipelineTo(l.client)
	if pipe == nil {
		return false
	}
	for i := range all {
		if k := &all[i]; k.reply == nil {
			k.reply = pipe.EvalSha(ctx, takeScript.digest, k.keys, k.args...)
		}
	}
	_, _ = pipe.Exec(ctx) // is also the error of each command
	return true
}

// teach sends the calls again whose server does not know the script: the first with
// the source, which the others then find.
func (l *lane) teach(ctx context.Context, all []call) {
	taught := false
	for i := range all {
		k := &all[i]
		if !redis.HasErrorPrefix(k.reply.Err(), "NOSCRIPT") {
			continue
		}
		if k.reply = nil; !taught {
			k.reply = l.client.Eval(ctx, takeScript.source, k.keys, k.args...)
			taught = true
		}
	}
	l.pipeline(ctx, all)
	for i := range all {
		k := &all[i]
		if redis.HasErrorPrefix(k.reply.Err(), "NOSCRIPT") { // kept elsewhere, or flushed again
			k.reply = takeScript.run(ctx, l.client, k.keys, k.args...)
		}
	}
}
