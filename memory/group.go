package memory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// group holds the charges of one Take or Peek. Groups are pooled.
type group struct {
	memory  *Memory
	charges []backends.Charge
	out     []limits.Decision
	parts   []part // one for each charge

	now     int64
	allowed bool // every enforced charge fits
	peeking bool // this is a Peek: no state changes
	taking  bool // allowed, and not peeking
}

// part is one charge of a group.
type part struct {
	limit *scopedLimit
	hash  uint64
	value uint64   // that of all charges on the key
	lead  int      // index of the first charge on the same key, which decides for all of them
	lasts int64    // the longest Charge.Lasts on the key, in microseconds
	lends int64    // the longest Charge.Lends on the key, in microseconds
	sum   [2]int64 // by kind: the cost of all charges on the key
	has   [2]bool  // by kind: the key has charges of it

	// Only in the lead: the state that was found, and later the state after the charges.
	used      family.Used
	displaced bool // see loadLocked
	takes     bool // the charges add units to used
}

// The kinds of charges. The charges of one kind on one key are decided as one charge: first the
// enforced ones, then the shadows.
const (
	enforced = 0
	shadow   = 1
)

func kindOf(ch *backends.Charge) int {
	if ch.Shadow {
		return shadow
	}
	return enforced
}

var errLengths = errors.New("memory: charges and decisions differ in length")

// release returns g to the pool, without references to its caller's memory.
func (g *group) release() {
	clear(g.parts)
	g.charges, g.out, g.parts = nil, nil, g.parts[:0]
	g.memory.groups.Put(g)
}

// identify finds the limit and the hash of each charge, and adds up the charges on one key.
func (g *group) identify() error {
	for i := range g.charges {
		ch := &g.charges[i]
		limit, err := g.memory.limitOf(ch)
		if err != nil {
			return err
		}
		p := &g.parts[i]
		*p = part{limit: limit, hash: g.memory.limits.keys.Key(limit.scopeHash, ch.Key), value: ch.Value,
			lead: i}
		for j := range i {
			if g.parts[j].isOnKeyOf(p) {
				p.lead = g.parts[j].lead
				break
			}
		}
		lead := &g.parts[p.lead]
		if lead.limit != limit && lead.limit.Given != limit.Given || lead.value != p.value {
			_, _, err := backends.Accounts(g.charges, nil, nil) // its error names the charges
			return fmt.Errorf("memory: %w", err)
		}
		lead.lasts = max(lead.lasts, ch.Lasts.Microseconds())
		lead.lends = max(lead.lends, ch.Lends.Microseconds())
		lead.has[kindOf(ch)] = true
		sum := &lead.sum[kindOf(ch)]
		*sum = arith.Sum(*sum, ch.Cost)
	}
	return nil
}

// isOnKeyOf reports whether p and other have one scope and key, perhaps under limits of different
// kinds.
func (p *part) isOnKeyOf(other *part) bool {
	return p.hash^maskOf(p.limit.Kind) == other.hash^maskOf(other.limit.Kind)
}

// lock locks each shard of the group once, by ascending index, so that two groups never deadlock.
func (g *group) lock() {
	last := -1
	for {
		next := len(g.memory.shards)
		for i := range g.parts {
			if at := int(g.parts[i].hash >> g.memory.shift); at > last && at < next {
				next = at
			}
		}
		if next == len(g.memory.shards) {
			return
		}
		g.memory.shards[next].mu.Lock()
		last = next
	}
}

func (g *group) unlock() {
	for i := range g.parts {
		at := g.parts[i].hash >> g.memory.shift
		if !slices.ContainsFunc(g.parts[:i], func(p part) bool { return p.hash>>g.memory.shift == at }) {
			g.memory.shards[at].mu.Unlock()
		}
	}
}

func (g *group) retired() bool {
	return slices.ContainsFunc(g.parts, func(p part) bool { return p.limit.retired.Load() })
}

// decideLocked decides the group in three passes: do the enforced charges fit, what is each key's
// decision, and, if the group takes units, store the new states. Each pass visits every key once,
// at its lead, the first charge on it.
func (g *group) decideLocked() {
	g.allowed = true
	for i := range g.parts {
		p := &g.parts[i]
		if p.lead != i {
			continue
		}
		sh := g.memory.shardOf(p.hash)
		if p.limit.Held {
			p.used = family.Used{A: sh.unitsHeldLocked(p, g.now)}
		} else {
			// A Take stores a converted state, even if the group is then denied.
			p.used, p.displaced = sh.loadLocked(sh.table.find(p.hash), p.limit, g.now, !g.peeking)
		}
		if p.has[enforced] { // else their sum is 0, and a ban would deny even that
			// Whether they fit is all that counts: shard.decideLocked would only correct the waits.
			_, _, fits := p.limit.family.Decide(p.used, p.sum[enforced], g.now, p.value,
				&sh.states.logs.nodes)
			g.allowed = g.allowed && fits
		}
	}
	g.taking = g.allowed && !g.peeking
	for i := range g.parts {
		if p := &g.parts[i]; p.lead == i {
			g.decideLeadLocked(p, g.memory.shardOf(p.hash))
		}
	}
	if !g.taking {
		return
	}
	for i := range g.parts {
		if p := &g.parts[i]; p.lead == i && p.takes {
			g.storeLeadLocked(p, g.memory.shardOf(p.hash))
		}
	}
}

// decideLeadLocked decides the charges on the key of the lead p: first the enforced ones, then the
// shadows on top of them. If the group is allowed, it adds the units that fit to p.used, even in a
// Peek, since the shadows are decided on top of the enforced units. sh is the shard of the key.
func (g *group) decideLeadLocked(p *part, sh *shard) {
	found, displaced, limit := p.used, p.displaced, p.limit
	for kind, n := range p.sum {
		if !p.has[kind] {
			continue
		}
		after, told, fits := sh.decideLocked(limit, p.used, p.displaced, n, g.now, p.value)
		d := limits.Decision{}
		if g.allowed && fits && n > 0 {
			if g.taking && !limit.Held { // held units need no ticket: settleOne only counts them
				after.Serial = sh.states.nextSerial(limit, after)
				d.Ticket = ticketOf(g.now, after.Serial)
			}
			d.Delay = limit.Queued(after, n)
			p.used, p.displaced, p.takes = after, false, true
		}
		// If nothing is taken, the decision describes the state that was found. Only the
		// wait is kept if the charge does not fit. In an allowed Peek the wait of a shadow includes
		// the enforced units, since p.used has them by now.
		if !g.taking {
			_, asFound, _ := sh.decideLocked(limit, found, displaced, 0, g.now, p.value)
			if !fits {
				asFound.Wait = told.Wait
			}
			told = asFound
		}
		limit.Describe(&d, n, told, fits)
		g.answer(p.lead, kind, &d)
	}
}

// storeLeadLocked stores the new state of the key of the lead p. sh is the shard of the key.
func (g *group) storeLeadLocked(p *part, sh *shard) {
	if p.limit.Held {
		table := sh.heldLocked()
		if p.lends > 0 {
			table.loans.lend(table, p.hash, p.value, p.used.A-table.of(p.hash), g.now+p.lends)
			return
		}
		table.set(p.hash, p.used.A)
		return
	}
	e := sh.table.find(p.hash)
	// A refund needs the level before these units: a refund of these (p.lasts > 0), or of earlier
	// ones (the key has a ring). rings is nil until a key of sh gets a ring.
	if p.limit.Drains && (p.lasts > 0 || !sh.states.rings.empty()) {
		sh.states.noteLevel(e, p.hash, p.limit, &sh.table, p.lasts, g.now)
	}
	sh.storeLocked(e, p.hash, p.limit, p.used, g.now, p.value)
}

// answer sets the decision of all charges of one kind whose lead is at index lead.
func (g *group) answer(lead, kind int, d *limits.Decision) {
	for i := lead; i < len(g.parts); i++ {
		if g.parts[i].lead == lead && kindOf(&g.charges[i]) == kind {
			g.out[i] = *d
		}
	}
}
