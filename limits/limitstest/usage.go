package limitstest

import (
	"math/big"

	"github.com/weir-go/weir/limits"
)

// usage is the state of one key, as the definitions say (DESIGN 5, the table of algorithms).
// Instants are in microseconds since the Unix epoch. A usage never changes: a taking returns a
// new one. The zero usage is fresh.
type usage struct {
	limit limits.Limit

	// at is, for a bucket or a log, the instant of the last taking. For windows it is the start of
	// the window that curr counts in; for an anchored window, the taking that opened it. If the
	// clock steps back, it stops at this instant for this key.
	at int64

	level      *big.Rat // buckets: the units in use at the instant at
	curr, prev int64    // windows: units in the window of at, and in the one before; bans: curr only
	takings    []taking // log, oldest first

	debt  int64  // fixed, anchored and calendar windows: units that the next one starts with
	until int64  // bans: when the ban ends; 0: not banned
	held  []hold // concurrency limits
	own   any    // what only the model of the algorithm knows

	change *change // the units in use when the limit changed; nil: none that count

	base   *usage  // the usage before the first of events
	events []event // takings since base, if one of them has an end
}

// isFresh reports whether u equals fresh usage under every limit when the clock shows now.
func (u usage) isFresh(now int64) bool { return u.isUnused(now) && !u.hasChange(now) }

// isUnused reports whether u equals fresh usage under its own limit when the clock shows now.
func (u usage) isUnused(now int64) bool {
	return u.limit == limits.Limit{} || max(now, u.at) >= u.freshAt()
}

func (u usage) model() model { return algorithmOf(u.limit).model }

// inUse returns how many whole units are in use at instant x ≥ u.at if nothing is taken until
// then. n units fit if inUse + n is at most the maximum. It never grows with x.
func (u usage) inUse(x int64) int64 { return u.model().inUse(u, x) }

// turned returns u in the window of instant x.
func (u usage) turned(x int64) usage { return u.model().turned(u, x) }

// freshAt returns the first instant at which u equals the usage of a key that was never charged.
func (u usage) freshAt() int64 { return u.model().freshAt(u) }

// plus returns u after n units were taken at instant x ≥ u.at.
func (u usage) plus(x, n int64) usage { return u.model().plus(u, x, n) }

// wait returns the least d for which n units, at most the maximum, fit at x+d if nothing is
// taken until then. They do not fit at x.
func (u usage) wait(x, n int64) int64 { return u.model().wait(u, x, n) }

// fresh returns the usage under limit of a key that was never charged.
func fresh(limit limits.Limit, now int64) usage { return algorithmOf(limit).model.fresh(limit, now) }
