package redisbackend

import (
	"strconv"
	"strings"

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
	at      destination
	bundles []*bundle
	keys    []string
	args    []any
	reply   *redis.Cmd
	holds   bool // some units are of concurrency limits
}

// destination is what the requests of a call have in common.
type destination struct {
	partition any // that keeps their keys; nil: there is only one
	instant   int64
}

// calls are the calls of one pipeline, and memory for making them that is reused.
type calls struct {
	all   []call
	of    map[destination]int
	forms map[string]int
	text  []byte // of a form
	order []byte // the form of each request, and its count
	texts []byte // of all forms
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
	for i := range cs.all {
		cs.write(&cs.all[i])
	}
}

// planEach makes a call for each of some bundles.
func (cs *calls) planEach(bundles []*bundle) {
	cs.reset()
	for _, c := range bundles {
		cs.add(destinationOf(c.one(), nil), c)
		cs.write(&cs.all[len(cs.all)-1])
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
	if n := len(cs.all); n < cap(cs.all) {
		cs.all = cs.all[:n+1]
	} else {
		cs.all = append(cs.all, call{})
	}
	k := &cs.all[len(cs.all)-1]
	k.at = at
	k.bundles = append(k.bundles, c)
}

func (cs *calls) reset() {
	for i := range cs.all {
		k := &cs.all[i]
		clear(k.bundles)
		clear(k.keys)
		clear(k.args)
		*k = call{bundles: k.bundles[:0], keys: k.keys[:0], args: k.args[:0]}
	}
	cs.all = cs.all[:0]
	clear(cs.of)
}

// isSingle reports whether k decides one request.
func (k *call) isSingle() bool { return len(k.bundles) == 1 && k.bundles[0].asks.Size == 1 }

// write writes KEYS and ARGV of take.lua.
func (cs *calls) write(k *call) {
	if k.isSingle() {
		a := k.bundles[0].one()
		k.keys, k.args, k.holds = append(k.keys, a.keys...), append(k.args, a.args...), a.holds != nil
		return
	}
	if cs.forms == nil {
		cs.forms = make(map[string]int)
	}
	clear(cs.forms)
	order, forms, ids := cs.order[:0], cs.texts[:0], []byte(nil)
	for _, c := range k.bundles {
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
		order = strconv.AppendInt(order, int64(form), 10)
		if c.rounds > 1 {
			order = append(order, 'x')
			order = strconv.AppendInt(order, int64(c.rounds), 10)
		}
		order = append(order, ' ')
		ids = c.appendIDs(ids)
	}
	if ids != nil {
		k.holds = true
		order = append(append(order, '@'), ids...)
	}
	cs.order, cs.texts = order, forms
	what := "batch"
	if k.at.instant != 0 {
		what += " " + strconv.FormatInt(k.at.instant, 10)
	}
	k.args = append(k.args, what, string(order), string(forms))
}

// appendForm appends the form of a: its mode, limits and units, without its keys.
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
			units, _, _ = strings.Cut(units, "#") // ids are not part of the form
			to = append(to, units...)
		}
	}
	return to
}
