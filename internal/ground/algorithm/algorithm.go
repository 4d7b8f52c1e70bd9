// Package algorithm is the table of algorithms: a row for each, a column for each property that
// packages ask for. Package family has their arithmetic, package limits their constants.
package algorithm

import (
	"slices"
	"strings"
)

// Algorithm is one row of the table. Other packages read the columns. Only the family of an
// algorithm, its constructor and its tests know it by name.
type Algorithm struct {
	Name       string // of the constant
	Word       string // at the beginning of its texts, if that is not Name
	Noun       string // what sentences call a limit, if that is not Name
	Example    string // a text, for errors and for the schema of policy files
	Parameters []Parameter
	Most       int64 // the most units that a limit may have
	Traits
	Redis   Redis
	Picture Picture
}

// Parameter is a parameter of an algorithm. The constructor and the texts have the parameters in
// the order of the row.
type Parameter struct {
	Words    string // before it in a text
	Or       string // what may stand instead
	Form     Form
	Optional bool
	Method   string // of package limits, which sets it; "": the constructor does
}

// Form is how a parameter is written. Package limits reads, writes and checks each.
type Form uint8

const (
	Rate    Form = iota // 100/minute
	Units               // 100
	Periods             // 100/month, a period of the calendar
	Burst               // 100; the units of the rate unless a text says otherwise
	Lasting             // 1h; this form and those that follow are durations
	Growing             // 24h, as long as Lasting at least
)

// Redis is what redisbackend knows of an algorithm.
type Redis struct {
	Letter  byte   // in scripts and states
	File    string // of its family, in Lua
	Numbers int    // of a state in a reply: see take.lua
	Takes   int    // cost of a taking, in keys
	Ends    int    // cost of a settlement, in keys
}

// Picture is how the playground draws what a limit has left: see draw.js.
type Picture string

const (
	Window Picture = "window" // filled with what is used
	Tokens Picture = "tokens" // a bucket of what is left
	Leak   Picture = "leak"   // a bucket of what is used
	Queue  Picture = "queue"  // requests in a line
	Places Picture = "places" // that requests hold
)

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
	Aligned  bool // its windows start at whole multiples of the period, for every key
	Fades    bool // the units of a window come back bit by bit in the window after it
	Ends     bool // all units come back when the window ends
	Moves    bool // a taking may move the start of a window
	Held     bool // a request holds its units until it ends, so no wait is known
	Values   bool // it counts the different values of charges; a cost above 1 counts as 1
	Bans     bool // any number of units fits until the key is banned; a ban denies cost 0, too
}

// MaxUnits is the highest number of units of a limit.
const MaxUnits = 1_000_000_000

// table is indexed by the constants of package limits. The first row is no algorithm. Scripts look
// for families in this order, so frequent ones come first.
var table = [...]Algorithm{
	{},
	{
		Name: "token-bucket", Example: "token-bucket 100/1m burst 20",
		Parameters: bucket, Most: MaxUnits,
		Traits:  Traits{Required: true, Leased: true, Drains: true},
		Redis:   Redis{'t', "bucket", 3, 1, 2},
		Picture: Tokens,
	},
	{
		Name: "leaky-bucket", Example: "leaky-bucket 10/s burst 20",
		Parameters: bucket, Most: MaxUnits,
		Traits:  Traits{Required: true, Leased: true, Drains: true},
		Redis:   Redis{'l', "bucket", 3, 1, 2},
		Picture: Leak,
	},
	{
		Name: "leaky-queue", Example: "leaky-queue 10/s burst 50",
		Parameters: bucket, Most: MaxUnits,
		Traits:  Traits{Required: true, Drains: true, Queues: true},
		Redis:   Redis{'q', "bucket", 3, 1, 1},
		Picture: Queue,
	},
	{
		Name: "fixed-window", Example: "fixed-window 1000/day",
		Parameters: []Parameter{{Form: Rate}}, Most: MaxUnits,
		Traits:  Traits{Required: true, Leased: true, Aligned: true, Ends: true},
		Redis:   Redis{'f', "fixed_window", 4, 1, 1},
		Picture: Window,
	},
	{
		Name: "sliding-window", Example: "sliding-window 100/minute",
		Parameters: []Parameter{{Form: Rate}}, Most: MaxUnits,
		Traits:  Traits{Required: true, Leased: true, Aligned: true, Fades: true},
		Redis:   Redis{'s', "sliding_window", 3, 1, 1},
		Picture: Window,
	},
	{
		Name: "sliding-log", Example: "sliding-log 5/5m",
		Parameters: []Parameter{{Form: Rate}}, Most: 10_000,
		Traits:  Traits{Required: true, Leased: true, Lists: true},
		Redis:   Redis{'g', "sliding_log", 2, 8, 16},
		Picture: Window,
	},
	{
		Name: "anchored-window", Example: "anchored-window 60/hour",
		Parameters: []Parameter{{Form: Rate}}, Most: MaxUnits,
		Traits:  Traits{Ends: true, Moves: true},
		Redis:   Redis{'n', "anchored_window", 4, 1, 1},
		Picture: Window,
	},
	{
		Name: "concurrent", Noun: "concurrency limit", Example: "concurrent 20",
		Parameters: []Parameter{{Form: Units}}, Most: 100_000,
		Traits:  Traits{Kind: Held, Held: true},
		Redis:   Redis{'c', "concurrent", 3, 1, 1},
		Picture: Places,
	},
	{
		Name: "ban", Example: "ban 10/10m for 1h",
		Parameters: []Parameter{{Form: Rate}, {Words: "for", Form: Lasting}}, Most: MaxUnits,
		Traits:  Traits{Kind: Bans, Ends: true, Bans: true},
		Redis:   Redis{'b', "ban", 3, 1, 1},
		Picture: Window,
	},
	{
		Name: "calendar", Example: "calendar 10000/month from 15 in Europe/Berlin",
		Parameters: []Parameter{{Form: Periods}}, Most: MaxUnits,
		Traits:  Traits{Leased: true, Ends: true},
		Redis:   Redis{'k', "calendar", 5, 1, 1},
		Picture: Window,
	},
	{
		Name: "distinct", Noun: "distinct limit", Example: "distinct 5/10m",
		Parameters: []Parameter{{Form: Rate}}, Most: 1000,
		Traits:  Traits{Kind: Values, Lists: true, Values: true},
		Redis:   Redis{'d', "distinct", 3, 8, 8},
		Picture: Window,
	},
	{
		Name: "growing-ban", Word: "ban", Noun: "growing ban",
		Example: "ban 5/10m for 1h growing to 1d",
		Parameters: []Parameter{{Form: Rate}, {Words: "for", Form: Lasting},
			{Words: "growing to", Form: Growing, Method: "Growing"}},
		Most:    10_000_000,
		Traits:  Traits{Kind: Bans, Ends: true, Bans: true},
		Redis:   Redis{'w', "growing_ban", 3, 1, 1},
		Picture: Window,
	},
}

// bucket is the parameters of buckets and queues.
var bucket = []Parameter{
	{Form: Rate}, {Words: "burst", Or: "capacity", Form: Burst, Optional: true},
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

// All returns all rows, the first for the constant 1.
func All() []Algorithm { return table[1:] }

// FirstWord returns the word at the beginning of a's texts.
func (a *Algorithm) FirstWord() string {
	if a.Word != "" {
		return a.Word
	}
	return a.Name
}

// Has reports whether a has a parameter of a form.
func (a *Algorithm) Has(form Form) bool {
	return slices.ContainsFunc(a.Parameters, func(p Parameter) bool { return p.Form == form })
}

// IsDuration reports whether f is a duration.
func (f Form) IsDuration() bool { return f >= Lasting }

// Constructor returns the name of a's constructor in package limits.
func (a *Algorithm) Constructor() (name string) {
	for word := range strings.SplitSeq(a.FirstWord(), "-") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// hasAll reports whether every part has a parameter of a.
func (a *Algorithm) hasAll(parts []Part) bool {
	for _, part := range parts {
		if !a.HasWords(part.Words) {
			return false
		}
	}
	return true
}

// HasWords reports whether words stand before a parameter of a.
func (a *Algorithm) HasWords(words string) bool {
	for i := range a.Parameters {
		if a.Parameters[i].Follows(words) {
			return true
		}
	}
	return false
}

// Follows reports whether p follows words in a text.
func (p *Parameter) Follows(words string) bool {
	return words == p.Words || words != "" && words == p.Or
}
