package memory

import (
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
)

// decideLocked decides the group.
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
			p.used, p.displaced = sh.loadLocked(sh.findLocked(p.hash), p.limit, g.now, !g.peeking)
		}
		if p.asked[enforced] { // a shadow does not stand in the way, even of a key that is banned
			_, _, fits := p.limit.family.Decide(p.used, p.sum[enforced], g.now, &sh.nodes)
			g.allowed = g.allowed && fits
		}
	}
	g.taking = g.allowed && !g.peeking
	for i := range g.parts {
		if p := &g.parts[i]; p.lead == i {
			g.decideAccountLocked(p, m.shardOf(p.hash))
		}
	}
	if !g.taking {
		return
	}
	for i := range g.parts {
		p := &g.parts[i]
		if p.lead == i && p.takes {
			sh := m.shardOf(p.hash)
			if p.limit.Held {
				sh.storeHeldLocked(p.hash, p.used.A)
				continue
			}
			e := sh.findLocked(p.hash)
			if p.limit.Drains && (p.lasts > 0 || sh.rings != nil) {
				sh.noteTakingLocked(e, p.hash, p.limit, p.lasts, g.now)
			}
			sh.storeLocked(e, p.hash, p.limit, p.used, g.now)
		}
	}
}

// decideAccountLocked decides the charges on the key that p leads, and adds what they
// take to p. sh is the shard of the key.
func (g *group) decideAccountLocked(p *part, sh *shard) {
	found, displaced, limit := p.used, p.displaced, p.limit
	for kind, n := range p.sum {
		if !p.asked[kind] {
			continue
		}
		after, t, fits := sh.decideLocked(limit, p.used, p.displaced, n, g.now)
		d := limits.Decision{}
		if g.allowed && fits && n > 0 {
			if g.taking && !limit.Held {
				after.Serial = sh.serialLocked(limit, after)
				d.Ticket = ticketOf(g.now, after.Serial)
			}
			d.Delay = limit.Queued(after, n)
			p.used, p.displaced, p.takes = after, false, true
		}
		if !g.taking { // what is left is what was found
			_, left, _ := sh.decideLocked(limit, found, displaced, 0, g.now)
			if !fits {
				left.Wait = t.Wait
			}
			t = left
		}
		limit.Describe(&d, n, t, fits)
		g.answer(p.lead, kind, &d)
	}
}

// answer sets the decision on all charges of one kind on the key that the charge at
// index lead leads.
func (g *group) answer(lead, kind int, d *limits.Decision) {
	for i := lead; i < len(g.parts); i++ {
		if g.parts[i].lead == lead && kindOf(&g.charges[i]) == kind {
			g.out[i] = *d
		}
	}
}
