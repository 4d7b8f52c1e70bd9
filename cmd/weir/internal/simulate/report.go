package simulate

import (
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// Range is the lower and higher result of both readings of the log. They are equal if stamps are
// finer than a second.
type Range struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// include extends r to n. The first call sets r to n.
func (r *Range) include(first bool, n int64) {
	if first {
		*r = Range{n, n}
		return
	}
	r.Low, r.High = min(r.Low, n), max(r.High, n)
}

// largest returns the distance from 0 of the bound that is furthest from it.
func (r Range) largest() int64 { return max(-r.Low, r.High) }

// Report is the result of a policy on the requests of logs.
type Report struct {
	Logs  []Log            `json:"logs"`
	Lines accesslog.Counts `json:"lines"`
	Late  int64            `json:"late"` // lines too late to be sorted
	// stamps that jump back, or far ahead for one line
	ClockJumps int64     `json:"clockJumps"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	// stamps are whole seconds, so numbers are ranges
	WholeSeconds bool  `json:"wholeSeconds"`
	Requests     int64 `json:"requests"`
	Clients      int64 `json:"clients"` // addresses; IPv6 by /64
	// answered 429 according to the log; they count as demand
	Logged429  int64       `json:"logged429"`
	Logged503  int64       `json:"logged503"`
	Policy     Side        `json:"policy"`
	Against    *Side       `json:"against,omitempty"`
	Others     []Side      `json:"others,omitempty"` // results of Options.Others
	Moved      *Moved      `json:"moved,omitempty"`
	BarSeconds int64       `json:"barSeconds"`
	Bars       []Bar       `json:"bars"`
	Suggestion *Suggestion `json:"suggestion,omitempty"`
	Notes      []string    `json:"notes"`
	KeysShown  bool        `json:"keysShown"`
}

type Log struct {
	Name   string `json:"name"`
	Format string `json:"format"` // of most lines
	// lines that were not simulated, by kind
	Skipped []accesslog.Skipped `json:"skipped,omitempty"`
	// cut off, or with damaged compression
	Incomplete bool `json:"incomplete,omitempty"`
}

// Disordered returns the number of lines that were decided at a wrong time, if it exceeds one in a
// hundred, which makes the figures useless. Otherwise it returns 0.
func (r *Report) Disordered() int64 {
	if n := r.Late + r.ClockJumps; n > 1 && n*100 > r.Requests {
		return n
	}
	return 0
}

// Side is the result of one policy.
type Side struct {
	Name    string    `json:"name"`
	Denied  Range     `json:"denied"`  // requests
	Clients Range     `json:"clients"` // with at least one denial
	Delayed Range     `json:"delayed"` // requests that wait in a leaky queue
	Rules   []Rule    `json:"rules"`
	Skipped []Skipped `json:"notSimulated"`
	Over    []Range   `json:"-"` // denied requests, by Report.Bars
}

// Rule is the result of one rule.
type Rule struct {
	Name       string `json:"name"`
	Limit      string `json:"limit"` // "": depends on the key
	Mode       string `json:"mode"`
	Asked      int64  `json:"asked"` // requests that it applies to
	AskedUnits int64  `json:"askedUnits"`
	Keys       int64  `json:"keys"` // keys with requests
	Denied     Range  `json:"denied"`
	Shadowed   Range  `json:"wouldBeDenied"` // by a shadow
	KeysDenied Range  `json:"keysDenied"`    // with at least one denial, including shadows
	WaitMillis Range  `json:"longestWaitMillis"`
	Never      Range  `json:"neverAllowed"` // denials that no wait ends
	// denied requests whose longest wait is from this rule
	Binding  Range      `json:"binding"`
	First    *time.Time `json:"firstDenial"`
	Top      []Key      `json:"top"`
	Period   string     `json:"period"` // period of demand
	Units    int64      `json:"units"`  // units of the limit in a period; 0: depends on the key
	Busiest  []Step     `json:"busiest"`
	Periods  []Step     `json:"periods"`
	Ladder   []Rung     `json:"ladder,omitempty"`
	Accuracy []Accuracy `json:"accuracy,omitempty"` // of Options.Accuracy
}

type Key struct {
	Key    string `json:"key"`
	Asked  int64  `json:"asked"`
	Peak   int64  `json:"peak"` // units in its busiest period
	Denied Range  `json:"denied"`
}

// Step is one step of a distribution of units: the number of keys whose busiest period has that
// many units, or the number of periods.
type Step struct {
	Units int64 `json:"units"`
	Count int64 `json:"count"`
}

// Rung is the result of a rule alone with another limit.
type Rung struct {
	Factor float64 `json:"factor"`
	Limit  string  `json:"limit"`
	Denied Range   `json:"denied"`
	Keys   Range   `json:"keysDenied"`
}

// Moved is the difference from the policy of --against.
type Moved struct {
	Denied  Range         `json:"newlyDenied"`
	Allowed Range         `json:"newlyAllowed"`
	Clients []MovedClient `json:"clients"` // clients with the largest changes
}

// MovedClient is a client whose requests are decided differently.
type MovedClient struct {
	Client string `json:"client"`
	Asked  int64  `json:"asked"`
	Change Range  `json:"change"` // change of allowed requests
}

// Bar is one interval of a time series.
type Bar struct {
	At     time.Time `json:"at"`
	Asked  int64     `json:"asked"`
	Denied Range     `json:"denied"`
	Before Range     `json:"deniedBefore"` // denied by the policy of --against
}

// Suggestion is the lowest limit that meets a condition.
type Suggestion struct {
	Rule      string `json:"rule"`
	Condition string `json:"condition"`
	Limit     string `json:"limit"` // "": none
	Denied    Range  `json:"denied"`
	Clients   Range  `json:"clients"`
	Less      string `json:"tooLow"` // the highest tried limit that does not meet it
	Passes    int    `json:"passes"`
}
