package redisbackend

import (
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
