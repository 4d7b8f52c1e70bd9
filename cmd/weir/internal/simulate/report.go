package simulate

import (
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// Range is a number in both readings of the log: the lower and the higher. They are equal
// where stamps are finer than a second.
type Range struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// include makes r a range that has n too; the first call sets it.
func (r *Range) include(first bool, n int64) {
	if first {
		*r = Range{n, n}
		return
	}
	r.Low, r.High = min(r.Low, n), max(r.High, n)
}

// Report is what a policy would have done to the requests of logs.
type Report struct {
	Logs         []Log            `json:"logs"`
	Lines        accesslog.Counts `json:"lines"`
	Late         int64            `json:"late"`       // lines that came too late to be sorted
	ClockJumps   int64            `json:"clockJumps"` // stamps that jump back, or far ahead for one line
	From         time.Time        `json:"from"`
	To           time.Time        `json:"to"`
	WholeSeconds bool             `json:"wholeSeconds"` // stamps are whole seconds, so that numbers are ranges
	Requests     int64            `json:"requests"`
	Clients      int64            `json:"clients"`   // addresses; IPv6 by /64
	Logged429    int64            `json:"logged429"` // answered so when the log was written; they are demand like the others
	Logged503    int64            `json:"logged503"`
	Policy       Side             `json:"policy"`
	Against      *Side            `json:"against,omitempty"`
	Others       []Side           `json:"others,omitempty"` // of Options.Others
	Moved        *Moved           `json:"moved,omitempty"`
	BarSeconds   int64            `json:"barSeconds"`
	Bars         []Bar            `json:"bars"`
	Suggestion   *Suggestion      `json:"suggestion,omitempty"`
	Notes        []string         `json:"notes"`
	KeysShown    bool             `json:"keysShown"`
}

// Log is one log that was read.
type Log struct {
	Name       string              `json:"name"`
	Format     string              `json:"format"`               // of most lines
	Skipped    []accesslog.Skipped `json:"skipped,omitempty"`    // lines that are not simulated, by kind
	Incomplete bool                `json:"incomplete,omitempty"` // it ends early, such as within a line, or its compression is damaged
}

// Disordered returns how many lines were decided at another time than their own, if they are
// so many that the figures say nothing: more than one in a hundred. Otherwise it returns 0.
func (r *Report) Disordered() int64 {
	if n := r.Late + r.ClockJumps; n > 1 && n*100 > r.Requests {
		return n
	}
	return 0
}

// Side is what one policy does.
type Side struct {
	Name    string    `json:"name"`
	Denied  Range     `json:"denied"`  // requests
	Clients Range     `json:"clients"` // that were denied at least once
	Delayed Range     `json:"delayed"` // requests that wait for their turn in a leaky queue
	Rules   []Rule    `json:"rules"`
	Skipped []Skipped `json:"notSimulated"`
	Over    []Range   `json:"-"` // denied requests by Report.Bars
}

// Rule is what one rule does.
type Rule struct {
	Name       string     `json:"name"`
	Limit      string     `json:"limit"` // "": it depends on the key
	Mode       string     `json:"mode"`
	Asked      int64      `json:"asked"` // requests to which it applies
	AskedUnits int64      `json:"askedUnits"`
	Keys       int64      `json:"keys"` // that ask
	Denied     Range      `json:"denied"`
	Shadowed   Range      `json:"wouldBeDenied"` // by a shadow
	KeysDenied Range      `json:"keysDenied"`    // at least once, by a shadow too
	WaitMillis Range      `json:"longestWaitMillis"`
	Never      Range      `json:"neverAllowed"` // denials that no wait ends
	Binding    Range      `json:"binding"`      // denials of a request for which this rule has the longest wait
	First      *time.Time `json:"firstDenial"`
	Top        []Key      `json:"top"`
	Period     string     `json:"period"` // of demand
	Units      int64      `json:"units"`  // of the limit in a period; 0: it depends on the key
	Busiest    []Step     `json:"busiest"`
	Periods    []Step     `json:"periods"`
	Ladder     []Rung     `json:"ladder,omitempty"`
	Accuracy   []Accuracy `json:"accuracy,omitempty"` // of Options.Accuracy
}

// Key is one key of a rule.
type Key struct {
	Key    string `json:"key"`
	Asked  int64  `json:"asked"`
	Peak   int64  `json:"peak"` // units in its busiest period
	Denied Range  `json:"denied"`
}

// Step says how many there are of a number of units: of keys that ask for as many in their
// busiest period, or of periods of all keys.
type Step struct {
	Units int64 `json:"units"`
	Count int64 `json:"count"`
}

// Rung is a rule alone with another limit.
type Rung struct {
	Factor float64 `json:"factor"`
	Limit  string  `json:"limit"`
	Denied Range   `json:"denied"`
	Keys   Range   `json:"keysDenied"`
}

// Moved is what changes from the policy of --against.
type Moved struct {
	Denied  Range         `json:"newlyDenied"`
	Allowed Range         `json:"newlyAllowed"`
	Clients []MovedClient `json:"clients"` // that change most
}

// MovedClient is a client for which something changes.
type MovedClient struct {
	Client string `json:"client"`
	Asked  int64  `json:"asked"`
	Change Range  `json:"change"` // allowed requests more, negative: less
}

// Bar is a stretch of time.
type Bar struct {
	At     time.Time `json:"at"`
	Asked  int64     `json:"asked"`
	Denied Range     `json:"denied"`
	Before Range     `json:"deniedBefore"` // by the policy of --against
}

// Suggestion is the lowest limit that meets a condition.
type Suggestion struct {
	Rule      string `json:"rule"`
	Condition string `json:"condition"`
	Limit     string `json:"limit"` // "": none does
	Denied    Range  `json:"denied"`
	Clients   Range  `json:"clients"`
	Less      string `json:"tooLow"` // the highest limit tried that does not meet it
	Passes    int    `json:"passes"`
}
