package memory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// group is the charges of one Take or Peek, pooled.
type group struct {
	charges []limits.Charge
	out     []limits.Decision
	pending []pending // one for each charge

	now     int64
	looks   int  // at the clock
	sure    bool // decide at now, whatever a shard has acted on
	stepped bool // the clock has stepped back, seen by two looks
	allowed bool // every enforced charge fits
	peeking bool // nothing is to change
	taking  bool // the charges that fit are to be taken
}

// maxLooks is how often a group looks at the clock. After that it believes those who
// were later, and decides at their instant.
const maxLooks = 4

// pending is one charge of a group.
type pending struct {
	limit   *scopedLimit
	hash    uint64
	lead    int    // index of the first charge on the same key; its own index if it is that
	ahead   int64  // from aheadLocked, at the last look at the clock
	cleared uint32 // shard.clears, at the last look
	lasts   int64  // microseconds: Charge.Lasts, the longest
	sum     [2]int64
	asked   [2]bool // there are charges of the kind
	fits    [2]bool
	state   view // lead only: what the charges leave behind
}

// Charges on one key are decided as one: enforced ones first, then shadows.
const (
	enforced = 0
	shadow   = 1
)

func kindOf(ch *limits.Charge) int {
	if ch.Shadow {
		return shadow
	}
	return enforced
}

var errLengths = errors.New("memory: charges and decisions differ in length")

// takeAll decides a group of charges at one instant. If taking is set it takes all
// that fit, or none.
func (m *Memory) takeAll(charges []limits.Charge, out []limits.Decision, taking bool) error {
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
// has acted at a later instant. There are two reasons for that. The group may have
// been delayed between the clock and the lock, and others have dropped states that are
// fresh by now: a second look catches up with them. Or the clock has stepped back:
// then a second look finds the same as the first. A group that is delayed every time
// decides at the latest instant of the others.
func (m *Memory) lateLocked(g *group) bool {
	latest, same := int64(0), true
	for i := range g.pending {
		p := &g.pending[i]
		if p.lead != i || p.limit.family == familyConcurrent {
			continue
		}
		sh := m.shardOf(p.hash)
		e := sh.findLocked(p.hash)
		ahead := sh.aheadLocked(e, p.limit, g.now)
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

// release returns g to the pool, without references to the memory of its caller.
func (m *Memory) release(g *group) {
	clear(g.pending)
	*g = group{pending: g.pending}
	m.groups.Put(g)
}

// identify finds limit and hash of each charge, and sums up the charges on one key.
func (m *Memory) identify(g *group) error {
	for i := range g.charges {
		ch := &g.charges[i]
		limit, err := m.limitOf(ch)
		if err != nil {
			return err
		}
		p := &g.pending[i]
		*p = pending{limit: limit, hash: m.limits.hash(limit.scopeHash, ch.Key), lead: i}
		for j := range i {
			if g.pending[j].hash == p.hash {
				p.lead = g.pending[j].lead
				break
			}
		}
		lead := &g.pending[p.lead]
		if lead.limit != limit && lead.limit.given != limit.given {
			_, _, err := limits.Accounts(g.charges, nil, nil) // says which
			return fmt.Errorf("memory: %w", err)
		}
		lead.lasts = max(lead.lasts, ch.Lasts.Microseconds())
		lead.asked[kindOf(ch)] = true
		sum := &lead.sum[kindOf(ch)]
		*sum = arith.Sum(*sum, ch.Cost)
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

// isPastLocked reports whether the group read the clock before a step that a caller
// with the lock of one of its shards knows of.
func (m *Memory) isPastLocked(g *group, steps int64) bool {
	past := false
	for i := range g.pending {
		past = m.shardOf(g.pending[i].hash).isPastLocked(steps) || past
	}
	return past
}

func (g *group) retired() bool {
	return slices.ContainsFunc(g.pending, func(p pending) bool { return p.limit.retired.Load() })
}
