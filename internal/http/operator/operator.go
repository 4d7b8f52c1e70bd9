// Package operator has the JSON that the operator's page of package admin and other programs say to
// each other. What only the script of the page reads stands in package admin.
//
// Times are milliseconds since the Unix epoch, or 0 for none. Waits are microseconds, or −1 for
// never.
package operator

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// Question is the content of api/explain. It asks for the decisions on a key, on a row of the page,
// or on a request.
type Question struct {
	Limiter string   `json:",omitempty"` // "": the only one
	Rule    string   `json:",omitempty"` // "": all rules
	Key     *string  `json:",omitempty"`
	ID      string   `json:",omitempty"` // of a row, in place of Limiter, Rule and Key
	Limit   string   `json:",omitempty"` // for rules whose limit depends on the request
	Request *Request `json:",omitempty"`
}

// Request is a request that a person wrote, to be explained.
type Request struct {
	Method  string // "": GET
	Path    string // "": /
	Host    string
	Address string      // of the client
	Route   string      // pattern that a mux routed it by
	Headers [][2]string // names and values
}

// Reply is the answer to a Question.
type Reply struct {
	Verdict string // of a request; "" for a key
	Error   string // of the request as a whole
	Binding string // the binding rule
	Rules   []Verdict
}

// Verdict is the decision of one rule. If the rule does not apply or cannot decide, Why has the
// reason and the numbers are meaningless.
type Verdict struct {
	Rule, Mode string
	Hidden     bool // clients do not learn of the rule
	Matches    bool
	Counted    bool // the numbers are meaningful
	Allowed    bool
	Kind, Key  string
	ID         string // id to forgive the key; "": not possible
	Limit      string
	Source     string
	Cost       int64
	Remaining  int64
	RetryAfter int64
	ResetAfter int64
	Why        string
}

// Refusal is the content of an answer that refuses a request: a problem document (RFC 9457) of no
// type of its own. Error is Detail once more, for what reads nothing else.
type Refusal struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Error  string
}

// Snapshot is the part of api/snapshot that not only the page reads.
type Snapshot struct {
	Rules  []Rule
	Policy *Policy // nil: the rules are those of the program
}

// Rule is a rule of a limiter, with its counters.
type Rule struct {
	Limiter, Name, Scope  string
	KeyName               string // kind of its keys, in words
	InForce               bool   // false: the rule is gone; its counters stay
	Ours                  bool   // the page can explain and change the rule
	Limit, Mode           string // Limit "": depends on the request
	GivenLimit, GivenMode string
	Percent               int // percentage of keys for which the rule is enforced
	Local, Concurrent     bool
	Capacity              bool  // its denials are answered 503
	Hidden                bool  // clients do not learn of it
	Until                 int64 // end of the override; 0: none
	Why, YAML             string

	Allowed, Denied, WouldDeny, Binding, NearLimit, Units int64
	Sources                                               map[string]int64
	Lost, Dropped                                         int64 // ends of requests
}

// Policy is the source of the rules.
type Policy struct {
	Source, Digest string
	Applied        int64
	Differences    []string
	FailingSince   int64
	Failure        string
}

// Millis returns t in milliseconds since the Unix epoch, 0 for the zero Time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Micros returns d in microseconds, −1 for [limits.Never].
func Micros(d time.Duration) int64 {
	if d == limits.Never {
		return -1
	}
	return d.Microseconds()
}
