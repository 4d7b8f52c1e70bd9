package core

import (
	"context"
	"time"

	"github.com/weir-go/weir/limits"
)

// Verdict is the answer of an [Outcome].
type Verdict uint8

const (
	// Denied: a request exceeds the limit of at least one rule. Over HTTP: 429, or 503 if only
	// capacity is short, see [Outcome.Status].
	Denied Verdict = iota
	// Allowed: the request may go on, after [Outcome.Delay].
	Allowed
	// Unavailable: a rule could not be applied, because its Key, Cost, LimitFor or backend failed,
	// and does not fail open; or the queue was full. Over HTTP: 503.
	Unavailable
	// Abandoned: the caller's context ended first. Over HTTP: a bare 503, which a client that has
	// left does not see.
	Abandoned
)

var verdictNames = [...]string{"denied", "allowed", "unavailable", "abandoned"}

// String returns a short name for logs and metric labels, such as "denied".
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "unknown"
}

// RuleDecision is one rule's part of an [Outcome]. Its methods describe the rule; they need a
// RuleDecision that [Outcome.At] returned.
type RuleDecision struct {
	rule  *ruleIdentity
	limit *limits.Limit // a pointer: each request clears and copies an Outcome

	// Key is "" if the request had none. It may identify a person: do not log it, and do not
	// label metrics with it.
	Key string

	Cost int64 // how many units the request takes
	limits.Decision
}

// Index returns the position of the rule in [Config].Rules.
func (d *RuleDecision) Index() int { return d.rule.index }

// Rule returns the name of the rule.
func (d *RuleDecision) Rule() string { return d.rule.name }

// Scope returns the scope in which the rule counts.
func (d *RuleDecision) Scope() string { return d.rule.scope }

// Limit returns the limit that decided. For a fallback that is the share of this process.
func (d *RuleDecision) Limit() limits.Limit { return *d.limit }

// Unit returns what Cost, the limit and Remaining count.
func (d *RuleDecision) Unit() Unit { return d.rule.unit }

// Mode returns [Enforce], or [Shadow] if the rule cannot deny this request.
func (d *RuleDecision) Mode() Mode { return d.rule.mode }

// Hidden reports whether clients must not learn of the rule: see [Rule].Hidden. A program that writes
// fields or answers of its own leaves such a decision out.
func (d *RuleDecision) Hidden() bool { return d.rule.hidden }

// Binds reports whether d binds more than e, in the order of [Outcome.BindingRule]: when both rules
// say how long to wait or how much is left, d is right.
func (d *RuleDecision) Binds(e *RuleDecision) bool {
	switch {
	case d.Allowed != e.Allowed:
		return !d.Allowed
	case d.RetryAfter != e.RetryAfter:
		return d.RetryAfter > e.RetryAfter
	case d.Remaining != e.Remaining:
		return d.Remaining < e.Remaining
	default:
		return d.ResetAfter > e.ResetAfter
	}
}

// denies reports whether d is a denial by an enforced rule that a backend or a fallback has counted.
func (d *RuleDecision) denies() bool {
	return !d.Allowed && d.rule.mode == Enforce && d.Source.Counted()
}

// charge sets the fields of d except its Decision: a rule charges cost units to key.
func (d *RuleDecision) charge(rule *ruleIdentity, key string, cost int64) {
	d.rule, d.limit, d.Key, d.Cost = rule, rule.limit, key, cost
}

// inlineDecisions is how many rules an Outcome holds without allocating.
const inlineDecisions = 2

// Outcome is the answer to one request: the verdict, and the decision of every rule that applied.
// The zero Outcome denies. An Outcome is a value and may be kept; most methods take a pointer only
// because it is large.
type Outcome struct {
	answer
	first [inlineDecisions]RuleDecision
	more  []RuleDecision
}

// answer is the small part of an Outcome. Its methods need no pointer, so limiter.Decide(ctx,
// r).Allowed() compiles. Its structs have at most four fields, since the compiler copies larger
// ones at each call of a method.
type answer struct {
	standing
	turn    int32 // the turn that was promised, in milliseconds; 0: none
	err     error
	request *request // nil: nothing to end
}

// standing is a part of answer, which may have four fields only.
type standing struct {
	verdict    Verdict
	generation uint16 // the generation of request
	revision   int32
	n          int32
}

// ruleIdentity is the part of a compiled rule that outcomes refer to.
type ruleIdentity struct {
	index       int
	name, scope string
	limit       *limits.Limit // Rule.Limit
	unit        Unit
	mode        Mode // Enforce or Shadow
	capacity    bool
	hidden      bool
	onFailure   FailurePolicy

	hasEnd    bool               // its charges have an end
	held      bool               // it has a concurrency limit: its units are held until then
	finalCost func(Result) int64 // nil: it is held, or its charges have no end
	lasts     time.Duration
	undelayed time.Duration // by how much a Delay is shorter than that of the backend
}

// delay returns the Delay of a decision of rule for which the backend returned d.
func (rule *ruleIdentity) delay(d time.Duration) time.Duration { return max(0, d-rule.undelayed) }

// Verdict returns the verdict.
func (o answer) Verdict() Verdict { return o.verdict }

// Allowed reports whether the request may go on.
func (o answer) Allowed() bool { return o.verdict == Allowed }

// Err returns the failures, joined, or nil. An outcome may be allowed and have an error: a fallback
// or an open rule stood in for a failed backend. Err is for the operator: do not show its text to
// clients.
func (o answer) Err() error { return o.err }

// Len returns the number of rules that applied to the request.
func (o answer) Len() int { return int(o.n) }

// At returns the decision of the i-th rule that applied, in the order of [Config].Rules. It is a
// part of o: do not change it. If i is not in [0, o.Len()), At returns a decision of no rule: it
// is not allowed, asked no backend, and has the index -1. An [Abandoned] outcome has no decisions.
func (o *Outcome) At(i int) *RuleDecision {
	if uint(i) >= uint(o.Len()) {
		return noDecision()
	}
	if i < inlineDecisions {
		return &o.first[i]
	}
	return &o.more[i-inlineDecisions]
}

// noRule is the rule of a decision of no rule.
var noRule = ruleIdentity{index: -1, limit: new(limits.Limit)}

// noDecision returns a decision of no rule. A request may have fewer decisions than there are
// rules, and a mistake about that must not end the process. Inlined, it would make each caller of
// At larger.
//
//go:noinline
func noDecision() *RuleDecision {
	return &RuleDecision{rule: &noRule, limit: noRule.limit,
		Decision: limits.Decision{Source: limits.SourceNotAsked}}
}

// Revision returns the number of the rules that decided: 1 for those of [New], and one more after
// each [Limiter.Replace], [Limiter.Override] or end of an override.
func (o answer) Revision() int32 { return o.revision }

// RetryAfter returns 0 if the outcome is allowed, and otherwise the longest RetryAfter of the rules
// that denied. It is [limits.Never] if one of them will never allow the request.
func (o *Outcome) RetryAfter() time.Duration {
	var longest time.Duration
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.rule.mode == Enforce {
			longest = max(longest, d.RetryAfter)
		}
	}
	return longest
}

// Turn returns how long a denied request is to wait for a turn of its own: RetryAfter, or longer if
// others were promised turns before it. See [Config].MaxPromise.
func (o *Outcome) Turn() time.Duration {
	return max(o.RetryAfter(), time.Duration(o.turn)*time.Millisecond)
}

// Delay returns how long an allowed request must wait for its turn: the longest Delay of its
// decisions.
func (o *Outcome) Delay() time.Duration {
	if o.verdict != Allowed {
		return 0
	}
	var longest time.Duration
	for i := range o.Len() {
		if d := o.At(i); d.rule.mode == Enforce {
			longest = max(longest, d.Delay)
		}
	}
	return longest
}

// Status returns the status of an HTTP answer: 200 if o is allowed; 429 if it is denied, or 503 if
// only rules with DenyAs503 denied it; 503 if it is unavailable or abandoned.
func (o *Outcome) Status() int {
	switch o.verdict {
	case Denied:
		if o.capacityOnly() {
			return 503
		}
		return 429
	case Allowed:
		return 200
	}
	return 503
}

// capacityOnly reports whether all rules that deny o have DenyAs503. A request that costs more than
// the limit ever allows is the client's mistake, and not one of capacity.
func (o *Outcome) capacityOnly() bool {
	only := false
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.rule.mode == Enforce {
			if !d.rule.capacity || d.RetryAfter == limits.Never {
				return false
			}
			only = true
		}
	}
	return only
}

// BindingRule returns the index, for [Outcome.At], of the decision that binds. A denied one binds
// before an allowed one; then the one with the longest RetryAfter, the lowest Remaining, the
// longest ResetAfter, and the first. A shadow does not bind. It returns -1 if no enforced rule was
// counted: no rule applied; or the Key, LimitFor or Cost of a rule failed, so that no backend was
// asked; or the backend failed without a fallback.
func (o *Outcome) BindingRule() int {
	binding := -1
	for i := range o.Len() {
		d := o.At(i)
		if !d.Source.Counted() || d.rule.mode != Enforce {
			continue
		}
		if binding < 0 || d.Binds(o.At(binding)) {
			binding = i
		}
	}
	return binding
}

// End ends the request. It releases the units of concurrency limits, and charges every rule with a
// FinalCost its final cost. A caller of [Limiter.Decide] must call End when an allowed request is
// over, best in a defer; middleware does so itself. End does nothing if the outcome is not allowed,
// or has no rule with an end. Only the first call counts, on the outcome or a copy and from any
// goroutine. End does not wait: a backend in another process gets the endings later, and
// [Config].Observer gets the settlements.
func (o *Outcome) End(result Result) {
	if o.request != nil {
		o.request.end(o.generation, result, underWay)
	}
}

// Spend adds n units to the real cost of the request under a rule. The first call replaces the
// rule's estimate; see [SpentCost]. It returns false, and counts nothing, if the rule has no
// FinalCost or did not charge this request, if n is negative, or if the request has ended. It is
// safe for concurrent use. Sums above math.MaxInt64 become that.
func (o *Outcome) Spend(rule string, n int64) bool {
	return o.request != nil && n >= 0 && o.request.spend(o.generation, rule, n)
}

// Detach leaves the end of the request to the caller, who must call end when the request is over;
// [Outcome.End] then does nothing. It is for a request that ends before or after its handler, such
// as a hijacked connection. ok is false, and end nil, if the request has nothing to end, has ended,
// or is detached already.
func (o *Outcome) Detach() (end func(Result), ok bool) {
	q, generation := o.request, o.generation
	if q == nil || !q.detach(generation) {
		return nil, false
	}
	return func(result Result) { q.end(generation, result, detached) }, true
}

// reset makes o an outcome without rules. It does not clear the decisions: the caller of grow sets
// every field.
func (o *Outcome) reset(verdict Verdict, revision int32) {
	o.answer = answer{standing: standing{verdict: verdict, revision: revision}}
	o.more = nil
}

// grow appends a decision, of which the caller sets every field, and returns it.
func (o *Outcome) grow() *RuleDecision {
	o.n++
	if o.n <= inlineDecisions {
		return &o.first[o.n-1]
	}
	if o.more == nil {
		o.more = make([]RuleDecision, 0, 2) // few requests have more than four rules
	}
	o.more = append(o.more, RuleDecision{})
	return &o.more[len(o.more)-1]
}

// charge appends a rule that charges cost units to key, and returns its decision.
func (o *Outcome) charge(rule *ruleIdentity, key string, cost int64) *limits.Decision {
	d := o.grow()
	d.charge(rule, key, cost)
	d.Decision = limits.Decision{}
	return &d.Decision
}

// record records the decision of rule at of o.
func (o *Outcome) record(at int, d *limits.Decision) {
	answered := o.At(at)
	answered.Decision = *d
	if answered.rule.undelayed != 0 {
		answered.Delay = answered.rule.delay(d.Delay)
	}
	if !d.Allowed && o.verdict == Allowed && answered.rule.mode == Enforce {
		o.verdict = Denied
	}
}

// markAll records, for every charge of s, that source decided without counting.
func (o *Outcome) markAll(source limits.Source, s *scratch) {
	for _, at := range s.charged[:s.used] {
		o.At(at).Decision = uncounted(source)
	}
}

// abandonIfEnded makes o abandoned, and returns true, if ctx has ended.
func (o *Outcome) abandonIfEnded(ctx context.Context) bool {
	err := ctx.Err()
	if err != nil {
		o.abandon(err)
	}
	return err != nil
}

// abandonIfDue abandons o if the deadline of ctx has passed. A backend that watches the deadline
// may fail before ctx has ended.
func (o *Outcome) abandonIfDue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	due := ok && !time.Now().Before(deadline)
	if due {
		o.abandon(context.DeadlineExceeded)
	}
	return due
}

// abandon makes o abandoned with err.
func (o *Outcome) abandon(err error) {
	o.reset(Abandoned, o.revision)
	o.err = err
}

// uncounted returns the decision of a source that does not count.
func uncounted(source limits.Source) limits.Decision {
	if source == limits.SourceClosed {
		return limits.Decision{Source: source, RetryAfter: closedRetryAfter,
			EffectiveWindow: closedRetryAfter}
	}
	return limits.Decision{Source: source, Allowed: true}
}
