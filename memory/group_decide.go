package memory

import "github.com/weir-go/weir/limits"

// decideLocked decides the group.
func (m *Memory) decideLocked(g *group) {
	g.allowed = true
	for i := range g.pending {
		p := &g.pending[i]
		if p.lead != i {
			continue
		}
		sh := m.shardOf(p.hash)
		if p.limit.held {
			sh.loadHeldLocked(&p.state, p.hash, g.now)
			g.fitLocked(p)
			continue
		}
		e := sh.findLocked(p.hash)
		sh.loadLocked(&p.state, e, p.limit, g.now, !g.peeking)
		g.fitLocked(p)
	}
	g.taking = g.allowed && !g.peeking
	for i := range g.pending {
		if p := &g.pending[i]; p.lead == i {
			g.decideAccountLocked(p, m.shardOf(p.hash))
		}
	}
	if !g.taking {
		return
	}
	for i := range g.pending {
		p := &g.pending[i]
		if p.lead == i && p.limit.takenBy(p) {
			sh := m.shardOf(p.hash)
			if p.limit.held {
				sh.storeHeldLocked(p.hash, p.state.a)
				continue
			}
			e := sh.findLocked(p.hash)
			if p.limit.drains && (p.lasts > 0 || sh.rings != nil) {
				sh.noteTakingLocked(e, p.hash, p.limit, p.lasts, g.now)
			}
			sh.storeLocked(e, p.hash, p.limit, &p.state, g.now)
		}
	}
}

// fitLocked sets whether the enforced charges that p leads fit. If there are none, they do
// not stand in the way, even of a key that is banned.
func (g *group) fitLocked(p *pending) {
	p.fits[enforced] = p.limit.fits(&p.state, p.sum[enforced])
	g.allowed = g.allowed && (p.fits[enforced] || !p.asked[enforced])
}

// takenBy reports whether the charges of p took anything.
func (l *compiledLimit) takenBy(p *pending) bool {
	return p.sum[enforced] > 0 || p.sum[shadow] > 0 && p.fits[shadow]
}

// decideAccountLocked decides the charges on the key that p leads, and adds what they
// take to the state of p. sh is the shard of the key.
func (g *group) decideAccountLocked(p *pending, sh *shard) {
	limit, untouched := p.limit, &p.state
	if g.allowed && !g.taking { // a peek takes from p.state, which is not stored
		g.untouched = p.state
		untouched = &g.untouched
	}
	for kind, n := range p.sum {
		d := &g.told
		*d = limits.Decision{}
		if kind == shadow {
			p.fits[shadow] = limit.fits(&p.state, n)
		}
		if g.allowed && p.fits[kind] && n > 0 {
			delay := limit.queued(&p.state)
			limit.take(&p.state, n)
			if g.taking && !limit.held {
				sh.numberTakingLocked(limit, &p.state.state) // the ticket has it
			}
			limit.describe(d, &p.state, n, true, sh)
			d.Delay = delay
		} else {
			limit.describe(d, &p.state, n, p.fits[kind], sh)
		}
		if !g.taking {
			limit.leaveUntouched(d, untouched, sh)
		}
		g.answer(p.lead, kind, d)
	}
}

// answer sets the decision on all charges of one kind on the key that the charge at
// index lead leads.
func (g *group) answer(lead, kind int, d *limits.Decision) {
	for i := lead; i < len(g.pending); i++ {
		if g.pending[i].lead == lead && kindOf(&g.charges[i]) == kind {
			g.out[i] = *d
		}
	}
}

// leaveUntouched sets the numbers of d that say what is left to those of s, from which
// nothing is taken.
func (l *compiledLimit) leaveUntouched(d *limits.Decision, s *view, sh *shard) {
	look := &sh.scratch.told
	l.describe(look, s, 0, true, sh)
	d.Remaining, d.ResetAfter = look.Remaining, look.ResetAfter
	if d.Allowed {
		d.EffectiveWindow = look.EffectiveWindow
	}
}
