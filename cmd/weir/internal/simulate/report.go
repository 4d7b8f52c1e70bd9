package simulate

import (
	"fmt"
	"slices"
	"strconv"
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
	ClockJumps int64 `json:"clockJumps"`
	// stamps too late to be sorted, before durations were taken off
	LateStamps int64     `json:"lateStamps"`
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
	Logged     *Logged     `json:"logged,omitempty"` // of Options.Denials
	BarSeconds int64       `json:"barSeconds"`
	Bars       []Bar       `json:"bars"`
	Suggestion *Suggestion `json:"suggestion,omitempty"`
	Notes      []string    `json:"notes"`
	KeysShown  bool        `json:"keysShown"`
}

type Log struct {
	Name   string `json:"name"`
	Format string `json:"format"` // of most lines
	// longest duration; 0: the log has none
	LongestMillis int64 `json:"longestDurationMillis,omitempty"`
	// lines that were not simulated, by kind
	Skipped []accesslog.Skipped `json:"skipped,omitempty"`
	// cut off, or with damaged compression
	Incomplete bool `json:"incomplete,omitempty"`
}

// Disordered returns why the figures are useless, if more than one line in a hundred was decided at
// a wrong time, or nil. If the stamps themselves are in order, the durations are to blame.
func (r *Report) Disordered() error {
	n := r.Late + r.ClockJumps
	if n <= 1 || n*100 <= r.Requests {
		return nil
	}
	if r.LateStamps*100 > r.Requests {
		return fmt.Errorf("%d of %s out of order: sort each log by time, or name its parts as "+
			"separate files", n, plural(r.Lines.Lines, "line is", "lines are"))
	}
	longest := time.Duration(0)
	for _, l := range r.Logs {
		longest = max(longest, time.Duration(l.LongestMillis)*time.Millisecond)
	}
	return fmt.Errorf("the stamps are in order, but less their durations, of up to %s, %d of %s "+
		"more than %d seconds before others: say what durations count by --duration-unit, or by "+
		"--stamp start that stamps are arrivals", longest, n,
		plural(r.Requests, "request comes", "requests come"), window)
}

// plural returns a number with a noun or a noun and its verb.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// hasRanges reports whether a figure depends on the reading of whole seconds.
func (r *Report) hasRanges() bool {
	differs := func(all ...Range) bool {
		return slices.ContainsFunc(all, func(r Range) bool { return r.Low != r.High })
	}
	sides := append([]Side{r.Policy}, r.Others...)
	if r.Against != nil {
		sides = append(sides, *r.Against)
	}
	for i := range sides {
		side := &sides[i]
		if differs(side.Denied, side.Shadowed, side.Clients, side.Delayed) {
			return true
		}
		for j := range side.Rules {
			rule := &side.Rules[j]
			if differs(rule.Denied, rule.Shadowed, rule.KeysDenied, rule.Never, rule.Binding) ||
				RoundedWait(rule.WaitMillis.Low) != RoundedWait(rule.WaitMillis.High) ||
				slices.ContainsFunc(rule.Top, func(k Key) bool { return differs(k.Denied) }) ||
				slices.ContainsFunc(rule.Ladder, func(l Rung) bool {
					return differs(l.Denied, l.Keys)
				}) ||
				slices.ContainsFunc(rule.Accuracy, func(a Accuracy) bool {
					return differs(a.Over, a.Early, a.Most)
				}) {
				return true
			}
		}
	}
	if m := r.Moved; m != nil && (differs(m.Denied, m.Allowed) ||
		slices.ContainsFunc(m.Clients, func(c MovedClient) bool { return differs(c.Change) })) {
		return true
	}
	s := r.Suggestion
	return s != nil && differs(s.Denied, s.Clients)
}

// RoundedWait returns a wait of milliseconds as reports show it: exact below ten seconds, else
// rounded to seconds, and to minutes from an hour on.
func RoundedWait(ms int64) time.Duration {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return d
	case d < time.Hour:
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}

// Side is the result of one policy.
type Side struct {
	Name   string `json:"name"`
	Denied Range  `json:"denied"` // requests
	// requests that are allowed, and that a shadow would deny
	Shadowed Range     `json:"wouldBeDenied"`
	Clients  Range     `json:"clients"` // with at least one denial
	Delayed  Range     `json:"delayed"` // requests that wait in a leaky queue
	Rules    []Rule    `json:"rules"`
	Skipped  []Skipped `json:"notSimulated"`
	Over     []Range   `json:"-"` // denied requests, by Report.Bars
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

// byClock explains why a key is denied whose busiest period has no more units than the limit, or
// returns "": the busiest period is one by the clock, and most limits count across its turn.
func (r *Rule) byClock() string {
	for _, k := range r.Top {
		if r.Units > 0 && k.Denied.Low > 0 && k.Peak <= r.Units {
			return fmt.Sprintf("Keys are denied by %s that ask for no more in their busiest %s than "+
				"the limit has, such as %d of %d: the busiest %s is one by the clock, and the limit "+
				"counts across its turn, or has a smaller burst.", r.Name, r.Period, k.Peak, r.Units,
				r.Period)
		}
	}
	return ""
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
	At       time.Time `json:"at"`
	Asked    int64     `json:"asked"`
	Denied   Range     `json:"denied"`
	Shadowed Range     `json:"wouldBeDenied"` // allowed, and denied by a shadow
	Before   Range     `json:"deniedBefore"`  // denied by the policy of --against
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
