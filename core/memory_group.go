package core

import (
	"errors"
	"fmt"
	"slices"
)

// group is several charges while they are decided together, pooled.
type group struct {
	charges []Charge
	out     []Decision
	pending []pending // one for each charge

	now     int64
	looks   int  // at the clock
	sure    bool // now is the instant to decide at, whatever a shard has acted on
	stepped bool // the clock has stepped back, seen by two looks
	allowed bool // every enforced charge fits
	peeking bool // nothing is to change
	taking  bool // the charges that fit are to be taken
}

// maxLooks is how often a group looks at the clock before it believes those who
// were later and go on by their instant.
const maxLooks = 4

// pending is one charge of a group.
type pending struct {
	class   *class
	hash    uint64
	lead    int    // index of the first charge on the same key; its own index if it is that
	ahead   int64  // what aheadLocked said at the last look at the clock
	cleared uint32 // and shard.clears
	sum     [2]int64
	fits    [2]bool
	state   settled // lead only: what the charges leave behind
}

// Charges on one key are decided as one: enforced ones first, then shadows.
const (
	enforced = 0
	shadow   = 1
)

func (ch *Charge) part() int {
	if ch.Shadow {
		return shadow
	}
	return enforced
}

var errLengths = errors.New("core: memory: charges and decisions differ in length")

// takeAll decides a group of charges at one instant and takes them, if taking
// is set, all or none.
func (m *Memory) takeAll(charges []Charge, out []Decision, taking bool) error {
	if len(charges) != len(out) {
		return errLengths
	}
	g := m.groups.Get().(*group)
	defer m.release(g)
	g.charges, g.out, g.peeking = charges, out, !taking
	g.pending = slices.Grow(g.pending[:0], len(charges))[:len(charges)]
	if err := m.identify(g); err != nil {
		return err
	}
	for {
		now, steps := m.clock.read()
		g.now = now
		m.lock(g)
		switch {
		case m.isPastLocked(g, steps) && g.looks < maxLooks:
			g.looks++
			m.unlock(g)
		case g.retired():
			m.unlock(g)
			if err := m.identify(g); err != nil {
				return err
			}
		case m.decideLocked(g):
			m.unlock(g)
			return nil
		default:
			m.unlock(g)
		}
	}
}

// lateLocked reports whether a group has to look at the clock again because a shard
// has acted on a later instant. Either the group was held up between the clock and
// the lock, and others have meanwhile forgotten what is fresh by now: a second look
// catches up with them. Or the clock has stepped back: a second look then finds
// the same as the first. A group that is held up every time goes on by the latest
// instant of the others.
func (m *Memory) lateLocked(g *group) bool {
	latest, same := int64(0), true
	for i := range g.pending {
		p := &g.pending[i]
		if p.lead != i {
			continue
		}
		sh := m.shardOf(p.hash)
		e := sh.findLocked(p.hash)
		ahead := sh.aheadLocked(e, p.class, g.now)
		latest, same = max(latest, ahead), same && ahead == p.ahead && (ahead == 0 || e != nil || sh.clears == p.cleared)
		p.ahead, p.cleared = ahead, sh.clears
	}
	g.looks++
	switch {
	case same:
		g.stepped = true
	case g.looks >= maxLooks:
		g.now = latest
	default:
		return true
	}
	return false
}

// release gives g back without what belongs to its callers and keys.
func (m *Memory) release(g *group) {
	clear(g.pending)
	*g = group{pending: g.pending}
	m.groups.Put(g)
}

// identify fills in who each charge is about and sums up those on one key.
func (m *Memory) identify(g *group) error {
	for i := range g.charges {
		ch := &g.charges[i]
		k, err := m.classOf(ch)
		if err != nil {
			return err
		}
		p := &g.pending[i]
		*p = pending{class: k, hash: m.classes.hash(k.mix, ch.Key), lead: i}
		for j := range i {
			if g.pending[j].hash == p.hash {
				p.lead = g.pending[j].lead
				break
			}
		}
		lead := &g.pending[p.lead]
		if lead.class != k && lead.class.limit != k.limit {
			return fmt.Errorf("core: memory: %w", errTwoLimits(ch.Scope, lead.class.limit, k.limit))
		}
		sum := &lead.sum[ch.part()]
		*sum = sumUnits(*sum, ch.Cost)
	}
	return nil
}

// lock locks the shards of the group in the order of their index, each once.
func (m *Memory) lock(g *group) {
	last := -1
	for {
		next := len(m.shards)
		for i := range g.pending {
			if at := int(g.pending[i].hash >> m.shift); at > last && at < next {
				next = at
			}
		}
		if next == len(m.shards) {
			return
		}
		m.shards[next].mu.Lock()
		last = next
	}
}

func (m *Memory) unlock(g *group) {
	for i := range g.pending {
		at := g.pending[i].hash >> m.shift
		if !slices.ContainsFunc(g.pending[:i], func(p pending) bool { return p.hash>>m.shift == at }) {
			m.shards[at].mu.Unlock()
		}
	}
}

// isPastLocked reports whether the group read the clock before a step that somebody
// who acted on one of its shards has seen.
func (m *Memory) isPastLocked(g *group, steps int64) bool {
	past := false
	for i := range g.pending {
		past = m.shardOf(g.pending[i].hash).isPastLocked(steps) || past
	}
	return past
}

func (g *group) retired() bool {
	return slices.ContainsFunc(g.pending, func(p pending) bool { return p.class.retired.Load() })
}

// decideLocked decides the group. It returns false, having changed nothing, if the
// group has to look at the clock again.
func (m *Memory) decideLocked(g *group) bool {
	g.allowed = true
	for i := range g.pending {
		p := &g.pending[i]
		if p.lead != i {
			continue
		}
		sh := m.shardOf(p.hash)
		e := sh.findLocked(p.hash)
		if !g.sure && (e == nil || e.at-g.now > p.class.patience || e.class != p.class.id) && sh.aheadLocked(e, p.class, g.now) != 0 {
			if m.lateLocked(g) {
				return false
			}
			g.sure = true
			return m.decideLocked(g)
		}
		if g.stepped && p.ahead != 0 {
			if e == nil { // all that was forgotten was so before now
				sh.clearedAt = min(sh.clearedAt, g.now)
			}
			e = sh.rebaseLocked(e, g.now, g.peeking)
		}
		sh.settleLocked(&p.state, e, p.class, g.now)
		p.fits[enforced] = p.class.fits(&p.state, p.sum[enforced])
		g.allowed = g.allowed && p.fits[enforced]
	}
	g.taking = g.allowed && !g.peeking
	for i := range g.pending {
		if p := &g.pending[i]; p.lead == i {
			g.settleAccountLocked(p, &m.shardOf(p.hash).nodes)
		}
	}
	if !g.taking {
		return true
	}
	for i := range g.pending {
		p := &g.pending[i]
		if p.lead == i && p.class.takenBy(p) {
			sh := m.shardOf(p.hash)
			sh.storeLocked(sh.findLocked(p.hash), p.hash, p.class, &p.state, g.now)
		}
	}
	return true
}

// takenBy reports whether the charges of p took anything.
func (t *terms) takenBy(p *pending) bool {
	return p.sum[enforced] > 0 || p.sum[shadow] > 0 && p.fits[shadow]
}

// settleAccountLocked decides the charges on one key, led by p, and leaves in
// the state of p what they take. The nodes are those of the key's shard.
func (g *group) settleAccountLocked(p *pending, nodes *logNodes) {
	k, untouched := p.class, &p.state
	if g.allowed && !g.taking { // what a peek decides is taken from p.state, and not kept
		before := p.state
		untouched = &before
	}
	for part, n := range p.sum {
		var d Decision
		if part == shadow {
			p.fits[shadow] = k.fits(&p.state, n)
		}
		if g.allowed && p.fits[part] && n > 0 {
			delay := k.queued(&p.state, g.now)
			k.take(&p.state, n)
			k.describe(&d, &p.state, n, true, g.now, nodes)
			d.Delay = delay
		} else {
			k.describe(&d, &p.state, n, p.fits[part], g.now, nodes)
		}
		if !g.taking {
			k.leaveUntouched(&d, untouched, g.now, nodes)
		}
		g.answer(p.lead, part, &d)
	}
}

// answer makes d the decision on the charges of one part on the key led by the
// charge at index lead.
func (g *group) answer(lead, part int, d *Decision) {
	for i := lead; i < len(g.pending); i++ {
		if g.pending[i].lead == lead && g.charges[i].part() == part {
			g.out[i] = *d
		}
	}
}

// leaveUntouched makes the numbers of d, which say what is left, those of a state
// that nothing is taken from.
func (t *terms) leaveUntouched(d *Decision, s *settled, now int64, nodes *logNodes) {
	var look Decision
	t.describe(&look, s, 0, true, now, nodes)
	d.Remaining, d.ResetAfter = look.Remaining, look.ResetAfter
	if d.Allowed {
		d.EffectiveWindow = look.EffectiveWindow
	}
}
