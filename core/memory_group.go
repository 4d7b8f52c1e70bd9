package core

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// pending is one charge of a group while the group is decided.
type pending struct {
	class *class
	hash  uint64
	lead  int // index of the first charge on the same key; its own index if it is that
	sum   [2]int64
	fits  [2]bool
	state settled // lead only: what the charges leave behind
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
	scratch := m.pending.Get().(*[]pending)
	defer m.pending.Put(scratch)
	*scratch = slices.Grow((*scratch)[:0], len(charges))[:len(charges)]
	group := *scratch
	defer clear(group)

	for {
		if err := m.identify(group, charges); err != nil {
			return err
		}
		now := m.clock.now()
		m.lock(group)
		if retired(group) {
			m.unlock(group)
			continue
		}
		m.decideLocked(group, charges, out, now, taking)
		m.unlock(group)
		return nil
	}
}

// identify fills in who each charge is about and sums up those on one key.
func (m *Memory) identify(group []pending, charges []Charge) error {
	for i := range charges {
		ch := &charges[i]
		k, err := m.classOf(ch)
		if err != nil {
			return err
		}
		p := &group[i]
		*p = pending{class: k, hash: m.classes.hash(k.mix, ch.Key), lead: i}
		for j := range i {
			if group[j].hash == p.hash {
				p.lead = group[j].lead
				break
			}
		}
		lead := &group[p.lead]
		if lead.class != k && lead.class.limit != k.limit {
			return fmt.Errorf("core: memory: scope %q is charged twice for one key, by limits %v and %v: rules of one scope need equal limits", ch.Scope, lead.class.limit, k.limit)
		}
		sum := &lead.sum[ch.part()]
		if *sum > math.MaxInt64-ch.Cost {
			*sum = math.MaxInt64
		} else {
			*sum += ch.Cost
		}
	}
	return nil
}

// lock locks the shards of the group in the order of their index, each once.
func (m *Memory) lock(group []pending) {
	last := -1
	for {
		next := len(m.shards)
		for i := range group {
			if at := int(group[i].hash >> m.shift); at > last && at < next {
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

func (m *Memory) unlock(group []pending) {
	for i := range group {
		at := group[i].hash >> m.shift
		if !slices.ContainsFunc(group[:i], func(p pending) bool { return p.hash>>m.shift == at }) {
			m.shards[at].mu.Unlock()
		}
	}
}

func retired(group []pending) bool {
	return slices.ContainsFunc(group, func(p pending) bool { return p.class.retired.Load() })
}

func (m *Memory) decideLocked(group []pending, charges []Charge, out []Decision, now int64, taking bool) {
	allowed := true
	for i := range group {
		p := &group[i]
		if p.lead != i {
			continue
		}
		sh := m.shardOf(p.hash)
		sh.settleLocked(&p.state, sh.findLocked(p.hash), p.class, now)
		p.fits[enforced] = p.class.fits(&p.state, p.sum[enforced])
		allowed = allowed && p.fits[enforced]
	}
	taking = taking && allowed
	for i := range group {
		if group[i].lead == i {
			m.settleAccountLocked(group, charges, out, i, now, allowed, taking)
		}
	}
	if !taking {
		return
	}
	for i := range group {
		p := &group[i]
		if p.lead == i && p.class.takenBy(p) {
			sh := m.shardOf(p.hash)
			sh.storeLocked(sh.findLocked(p.hash), p.hash, p.class, &p.state, now)
		}
	}
}

// takenBy reports whether the charges of p took anything.
func (t *terms) takenBy(p *pending) bool {
	return p.sum[enforced] > 0 || p.sum[shadow] > 0 && p.fits[shadow]
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

// settleAccountLocked decides the charges on one key, led by the one at index
// lead, and leaves in its state what they take.
func (m *Memory) settleAccountLocked(group []pending, charges []Charge, out []Decision, lead int, now int64, allowed, taking bool) {
	p := &group[lead]
	k, nodes := p.class, &m.shardOf(p.hash).nodes
	untouched := p.state
	for part := range p.sum {
		n := p.sum[part]
		var d Decision
		if part == shadow {
			p.fits[shadow] = k.fits(&p.state, n)
		}
		if allowed && p.fits[part] && n > 0 {
			delay := k.queued(&p.state, now)
			k.take(&p.state, n)
			k.describe(&d, &p.state, n, true, now, nodes)
			d.Delay = delay
		} else {
			k.describe(&d, &p.state, n, p.fits[part], now, nodes)
		}
		if !taking {
			k.leaveUntouched(&d, &untouched, now, nodes)
		}
		for i := lead; i < len(group); i++ {
			if group[i].lead == lead && charges[i].part() == part {
				out[i] = d
			}
		}
	}
}
