// Package algorithm has the table of algorithms: what packages ask of an algorithm, besides its
// arithmetic. Package limits has their names as constants.
package algorithm

// Algorithm is one row of the table.
type Algorithm struct {
	Name string // in text
	Most int64  // units that a limit may have
	Traits
}

// Traits are what tells algorithms apart.
type Traits struct {
	Required bool // every backend decides it
	Leased   bool // processes may take units in advance
	Drains   bool // it drains continuously, and has a burst of its own
	Queues   bool // requests are told when their turn is; only the last taking is ever returned
	Lists    bool // a state may have a list of entries
	Ends     bool // all units come back at one instant, at which the window ends
	Moves    bool // each taking may move the start of a window
	Held     bool // units are held until they are released, so no wait is known
	Bans     bool // any number of units fits until the key is banned; then a charge of 0 is denied, too
}

// MaxUnits is the highest number of units of a limit.
const MaxUnits = 1_000_000_000

// table is in the order of the constants of package limits. The first row is no algorithm.
var table = [...]Algorithm{
	{},
	{"token-bucket", MaxUnits, Traits{Required: true, Leased: true, Drains: true}},
	{"leaky-bucket", MaxUnits, Traits{Required: true, Leased: true, Drains: true}},
	{"leaky-queue", MaxUnits, Traits{Required: true, Drains: true, Queues: true}},
	{"fixed-window", MaxUnits, Traits{Required: true, Leased: true, Ends: true}},
	{"sliding-window", MaxUnits, Traits{Required: true, Leased: true}},
	{"sliding-log", 10_000, Traits{Required: true, Leased: true, Lists: true}},
	{"anchored-window", MaxUnits, Traits{Ends: true, Moves: true}},
	{"concurrent", 100_000, Traits{Held: true}},
	{"ban", MaxUnits, Traits{Ends: true, Bans: true}},
	{"calendar", MaxUnits, Traits{Leased: true, Ends: true}},
}

// End is the number after that of the last algorithm.
const End = len(table)

// Of returns the row of a, a limits.Algorithm; an empty one if there is no such algorithm.
func Of[A ~uint8](a A) *Algorithm {
	if int(a) >= len(table) {
		a = 0
	}
	return &table[a]
}
