package world

import (
	"errors"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// spending is how many units of the rule Spending have been taken and kept: of each key, by what
// its requests have cost, and of all together, by what settlements say.
type spending struct {
	keys    map[string]*keySpending
	all     unitRange
	pending map[*Process]*unitRange // what ends will change that have not been reported
}

// unitRange is a number of units that is known from least to most.
type unitRange struct{ least, most int64 }

// keySpending is what the requests of a key have taken, and how much more they cost in the end.
type keySpending struct {
	taken   unitRange
	ended   unitRange // if settlements may be lost
	exactly int64     // if none is
}

func newSpending() spending {
	return spending{keys: make(map[string]*keySpending), pending: make(map[*Process]*unitRange)}
}

// add says that servers have taken units of a key, least at least and most at most.
func (s *spending) add(key string, least, most int64) {
	s.all.add(least, most)
	entryOf(s.keys, key).taken.add(least, most)
}

func (s *unitRange) add(least, most int64) {
	s.least += least
	s.most += most
}

func entryOf[K comparable, V any](values map[K]*V, key K) *V {
	if values[key] == nil {
		values[key] = new(V)
	}
	return values[key]
}

// mayHaveCharged reports whether servers may have charged, and kept, the estimate of a request
// whose end says nothing of it.
func (l *laws) mayHaveCharged(p *Process, o core.Outcome) bool {
	if p.dead() || o.Verdict() == core.Abandoned {
		return true
	}
	for i := range o.Len() {
		switch d := o.At(i); d.Source {
		case limits.SourcePrimary: // on several servers a taking is given back, or the giving is lost
			if !o.Allowed() && l.world.topology != One && len(l.faults) > 0 {
				return true
			}
		case limits.SourceFallback, limits.SourceOpen, limits.SourceClosed:
			return !errors.Is(o.Err(), remote.ErrOpen)
		}
	}
	return false
}

// ends says that a request is over, which the given source has charged.
func (s *spending) ends(p *Process, r Request, by limits.Source) {
	more := r.Final - Estimate
	least, most := min(0, more), max(0, more)
	if by != limits.SourceFallback || !p.dead() {
		entryOf(s.pending, p).add(least, most)
	}
	switch {
	case by == limits.SourceFallback && p.dead():
	case by == limits.SourceFallback: // the settlement will say as much, and no server knows of it
		s.all.add(-more, -more)
	default:
		entryOf(s.keys, r.Key).ended.add(least, most)
		entryOf(s.keys, r.Key).exactly += more
	}
}

// settles records a settlement.
func (s *spending) settles(p *Process, what limits.Settlement) {
	more := what.Final - what.Taken
	least, most := min(0, more), max(0, more)
	entryOf(s.pending, p).add(-least, -most)
	if what.Err == nil {
		least, most = what.Charged-what.Returned, what.Charged-what.Returned
	}
	s.all.add(least, most)
}

// settlements returns those until now.
func (l *laws) settlements() []limits.Settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.settled)
}

// settles checks a settlement. Each end is reported once.
func (l *laws) settles(p *Process, s limits.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = append(l.settled, s)
	if s.Returned > max(0, s.Taken-s.Final) || s.Charged+s.Forgiven > max(0, s.Final-s.Taken) ||
		s.Err != nil && s.Returned+s.Charged != 0 {
		l.breaks("settled %+v", s)
	}
	if p.dead() {
		return
	}
	if l.counts[p].due--; l.counts[p].due < 0 {
		l.breaks("%s: settled what has not ended, or twice: %+v", p.name, s)
	}
	if s.Rule == "spending" {
		l.spending.settles(p, s)
	}
}

// checkSpending asks the servers what keys have spent: what is returned was taken, and returned
// once; no taking and no charge is made twice. Without a fault it is what all requests have cost.
func (l *laws) checkSpending(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, known := int64(0), true
	for key, k := range l.spending.keys {
		want := unitRange{k.taken.least + k.exactly, k.taken.most + k.exactly}
		if len(l.faults) > 0 { // also one that began after the end of a request, and before it was settled
			want = unitRange{k.taken.least + k.ended.least, k.taken.most + k.ended.most}
		}
		of := account{"spending", key}
		server := l.world.serverOf(of, algorithm.Rates)
		if len(l.losses[server]) > 0 || l.world.topology == Ring && len(l.faults) > 0 {
			known = false
			continue
		}
		out := make([]limits.Decision, 1)
		charge := []backends.Charge{{Scope: of.scope, Key: of.key, Limit: spendingLimit}}
		err := errors.New("not asked")
		for tries := 0; err != nil && tries < 100; tries++ { // idle connections may have broken
			err = p.bare.Peek(l.world.t.Context(), charge, out)
		}
		if err != nil {
			l.breaks("peek at %v: %v", of, err)
			known = false
			continue
		}
		spent := spendingLimit.Burst() - out[0].Remaining
		all += spent
		l.isWithin(p, of.key, spent, want)
	}
	if want := l.spending.all; known {
		for _, p := range l.spending.pending { // processes that were killed say no more
			want.add(p.least, p.most)
		}
		l.isWithin(p, "all keys", all, want)
	}
}

func (l *laws) isWithin(p *Process, what string, spent int64, want unitRange) {
	// A process that ends, and a fault, may lose blocks of leases.
	leased := p.program.Lease > 0 && (len(l.faults) > 0 || l.restarted)
	if spent < want.least || spent > want.most && !leased {
		l.breaks("%s: %d are spent, want %d to %d", what, spent, want.least, want.most)
	}
}
