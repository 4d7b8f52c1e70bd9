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
	value int64    // the digest of the value, of a limit that counts values
	lead  int      // index of the first charge on the same key, which decides for all of them
	lasts int64    // the longest Charge.Lasts on the key, in microseconds
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

// takeAll decides charges at one instant. If taking is set, it takes their units unless an enforced
// charge is denied.
func (m *Memory) takeAll(charges []backends.Charge, out []limits.Decision, taking bool) error {
	if len(charges) != len(out) {
		return errLengths
	}
	g := m.groups.Get().(*group)
	defer m.release(g)
	g.charges, g.out, g.peeking = charges, out, !taking
	g.parts = slices.Grow(g.parts[:0], len(charges))[:len(charges)]
	if err := m.identify(g); err != nil {
		return err
	}
	for {
		g.now = m.clock.now()
		m.lock(g)
		if !g.retired() {
			break
		}
		m.unlock(g)
		if err := m.identify(g); err != nil {
			return err
		}
	}
	defer m.unlock(g)
	for i := range g.parts {
		g.now = m.shardOf(g.parts[i].hash).nowLocked(g.now)
	}
	for i := range g.parts {
		m.shardOf(g.parts[i].hash).latest = g.now
	}
	m.decideLocked(g)
	at := m.clock.at(g.now)
	for i := range out {
		out[i].At = at
	}
	return nil
}

// release returns g to the pool, without references to its caller's memory.
func (m *Memory) release(g *group) {
	clear(g.parts)
	g.charges, g.out, g.parts = nil, nil, g.parts[:0]
	m.groups.Put(g)
}

// identify finds the limit and the hash of each charge, and adds up the charges on one key.
func (m *Memory) identify(g *group) error {
	for i := range g.charges {
		ch := &g.charges[i]
		limit, err := m.limitOf(ch)
		if err != nil {
			return err
		}
		p := &g.parts[i]
		*p = part{limit: limit, hash: m.limits.hash(limit.scopeHash, ch.Key), lead: i}
		for j := range i {
			if g.parts[j].isOnKeyOf(p) {
				p.lead = g.parts[j].lead
				break
			}
		}
		lead := &g.parts[p.lead]
		if lead.limit != limit && lead.limit.Given != limit.Given {
			_, _, err := backends.Accounts(g.charges, nil, nil) // its error names the charges
			return fmt.Errorf("memory: %w", err)
		}
		lead.lasts = max(lead.lasts, ch.Lasts.Microseconds())
		lead.has[kindOf(ch)] = true
		sum := &lead.sum[kindOf(ch)]
		*sum = arith.Sum(*sum, ch.Cost)
		if limit.Values {
			*sum = min(*sum, 1)
			if p.value = m.limits.digest(ch.Value); p.value != lead.value {
				_, _, err := backends.Accounts(g.charges, nil, nil)
				return fmt.Errorf("memory: %w", err)
			}
		}
	}
	return nil
}

// isOnKeyOf reports whether p and other have one scope and key, perhaps under limits of different
// kinds.
func (p *part) isOnKeyOf(other *part) bool {
	return p.hash^kindMasks[p.limit.Kind] == other.hash^kindMasks[other.limit.Kind]
}

// lock locks each shard of the group once, by ascending index, so that two groups never deadlock.
func (m *Memory) lock(g *group) {
	last := -1
	for {
		next := len(m.shards)
		for i := range g.parts {
			if at := int(g.parts[i].hash >> m.shift); at > last && at < next {
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
	for i := range g.parts {
		at := g.parts[i].hash >> m.shift
		if !slices.ContainsFunc(g.parts[:i], func(p part) bool { return p.hash>>m.shift == at }) {
			m.shards[at].mu.Unlock()
		}
	}
}

func (g *group) retired() bool {
	return slices.ContainsFunc(g.parts, func(p part) bool { return p.limit.retired.Load() })
}
