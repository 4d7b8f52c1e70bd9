// Package algorithm is the table of algorithms: a row for each, a column for each property that
// packages ask for. Package family has their arithmetic, package limits their constants.
package algorithm

// Algorithm is one row of the table.
type Algorithm struct {
	Name string // in text
	Most int64  // the most units that a limit may have
	Traits
}

// Kind is a kind of counting. Limits of one kind share the state of a scope and key: their units
// convert into each other. Limits of different kinds count apart, each in a state of its own.
type Kind uint8

const (
	Rates  Kind = iota // units that come back with time
	Bans               // units that lead to a ban
	Values             // different values
	Held               // units that requests hold

	Kinds = iota // how many kinds there are
)

// String says what limits of a kind count.
func (k Kind) String() string {
	return [Kinds]string{
		Rates: "a rate", Bans: "towards a ban", Values: "different values", Held: "requests at once",
	}[k]
}

// Traits are the properties in which algorithms differ.
type Traits struct {
	Kind     Kind // what it counts
	Required bool // assumed of a backend that is no backends.Supporter
	Leased   bool // a process may take units in advance
	Drains   bool // its units drain continuously, and it has a burst
	Queues   bool // each request is told its turn, so only the last taking can be returned
	Lists    bool // a state has a list of takings
	Ends     bool // all units come back when the window ends
	Moves    bool // a taking may move the start of a window
	Held     bool // a request holds its units until it ends, so no wait is known
	Values   bool // it counts the different values of charges; a cost above 1 counts as 1
	Bans     bool // any number of units fits until the key is banned; a ban denies cost 0, too
}

// MaxUnits is the highest number of units of a limit.
const MaxUnits = 1_000_000_000

// table is indexed by the constants of package limits. The first row is no algorithm.
var table = [...]Algorithm{
	{},
	{"token-bucket", MaxUnits, Traits{Required: true, Leased: true, Drains: true}},
	{"leaky-bucket", MaxUnits, Traits{Required: true, Leased: true, Drains: true}},
	{"leaky-queue", MaxUnits, Traits{Required: true, Drains: true, Queues: true}},
	{"fixed-window", MaxUnits, Traits{Required: true, Leased: true, Ends: true}},
	{"sliding-window", MaxUnits, Traits{Required: true, Leased: true}},
	{"sliding-log", 10_000, Traits{Required: true, Leased: true, Lists: true}},
	{"anchored-window", MaxUnits, Traits{Ends: true, Moves: true}},
	{"concurrent", 100_000, Traits{Kind: Held, Held: true}},
	{"ban", MaxUnits, Traits{Kind: Bans, Ends: true, Bans: true}},
	{"calendar", MaxUnits, Traits{Leased: true, Ends: true}},
	{"distinct", 1000, Traits{Kind: Values, Lists: true, Values: true}},
}

// End is one more than the number of the last algorithm.
const End = len(table)

// Of returns the row of a, a limits.Algorithm. The row of an unknown algorithm is empty.
func Of[A ~uint8](a A) *Algorithm {
	if int(a) >= len(table) {
		a = 0
	}
	return &table[a]
}
