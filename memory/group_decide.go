package memory

import (
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
)

// decideLocked decides the group in three passes: do the enforced charges fit, what is each key's
// decision, and, if the group takes units, store the new states. Each pass visits every key once,
// at its lead, the first charge on it.
func (m *Memory) decideLocked(g *group) {
	g.allowed = true
	for i := range g.parts {
		p := &g.parts[i]
		if p.lead != i {
			continue
		}
		sh := m.shardOf(p.hash)
		if p.limit.Held {
			p.used = family.Used{A: sh.held.of(p.hash)}
		} else {
			// A Take stores a converted state, even if the group is then denied.
			p.used, p.displaced = sh.loadLocked(sh.findLocked(p.hash), p.limit, g.now, !g.peeking)
		}
		// nodes.value is an argument of Decide and storeLocked: see logNodes.
		sh.nodes.value = p.value
		if p.has[enforced] { // else their sum is 0, and a ban would deny even that
			// Whether they fit is all that counts: shard.decideLocked would only correct the waits.
			_, _, fits := p.limit.family.Decide(p.used, p.sum[enforced], g.now, &sh.nodes)
			g.allowed = g.allowed && fits
		}
	}
	g.taking = g.allowed && !g.peeking
	for i := range g.parts {
		if p := &g.parts[i]; p.lead == i {
			g.decideLeadLocked(p, m.shardOf(p.hash))
		}
	}
	if !g.taking {
		return
	}
	for i := range g.parts {
		if p := &g.parts[i]; p.lead == i && p.takes {
			g.storeLeadLocked(p, m.shardOf(p.hash))
		}
	}
}

// decideLeadLocked decides the charges on the key of the lead p: first the enforced ones, then the
// shadows on top of them. If the group is allowed, it adds the units that fit to p.used, even in a
// Peek, since the shadows are decided on top of the enforced units. sh is the shard of the key.
func (g *group) decideLeadLocked(p *part, sh *shard) {
	found, displaced, limit := p.used, p.displaced, p.limit
	sh.nodes.value = p.value
	for kind, n := range p.sum {
		if !p.has[kind] {
			continue
		}
		after, told, fits := sh.decideLocked(limit, p.used, p.displaced, n, g.now)
		d := limits.Decision{}
		if g.allowed && fits && n > 0 {
			if g.taking && !limit.Held { // held units need no ticket: settleOne only counts them
				after.Serial = sh.serialLocked(limit, after)
				d.Ticket = ticketOf(g.now, after.Serial)
			}
			d.Delay = limit.Queued(after, n)
			p.used, p.displaced, p.takes = after, false, true
		}
		// If nothing is taken, the decision describes the state that was found. Only the
		// wait is kept if the charge does not fit. In an allowed Peek the wait of a shadow includes
		// the enforced units, since p.used has them by now.
		if !g.taking {
			_, asFound, _ := sh.decideLocked(limit, found, displaced, 0, g.now)
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
		sh.storeHeldLocked(p.hash, p.used.A)
		return
	}
	e := sh.findLocked(p.hash)
	// A refund needs the level before these units: a refund of these (p.lasts > 0), or of earlier
	// ones (the key has a ring). rings is nil until a key of sh gets a ring.
	if p.limit.Drains && (p.lasts > 0 || sh.rings != nil) {
		sh.noteLevelLocked(e, p.hash, p.limit, p.lasts, g.now)
	}
	sh.nodes.value = p.value
	sh.storeLocked(e, p.hash, p.limit, p.used, g.now)
}

// answer sets the decision of all charges of one kind whose lead is at index lead.
func (g *group) answer(lead, kind int, d *limits.Decision) {
	for i := lead; i < len(g.parts); i++ {
		if g.parts[i].lead == lead && kindOf(&g.charges[i]) == kind {
			g.out[i] = *d
		}
	}
}
