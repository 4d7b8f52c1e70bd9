package core

import (
	"context"
	"time"

	"github.com/weir-go/weir/limits"
)

// Verdict is what an [Outcome] comes to.
type Verdict uint8

const (
	// Denied: at least one rule's limit is exceeded. Over HTTP: 429, or 503 if it is
	// about capacity alone, see [Outcome.Status].
	Denied Verdict = iota
	// Allowed: the request may go on, after [Outcome.Delay].
	Allowed
	// Unavailable: a rule could not be applied (its key, cost or limit function
	// or its backend failed) and does not fail open. Over HTTP: 503.
	Unavailable
	// Abandoned: the caller's context ended first. Over HTTP: a bare 503, which a client that
	// has left does not see.
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

// RuleDecision is one rule's part of an [Outcome]. Its methods say which rule, and need one that
// [Outcome.At] returned.
type RuleDecision struct {
	rule  *ruleIdentity
	limit *limits.Limit // a pointer: Outcomes are cleared and copied for every request

	Key  string // "" if the request had none; may identify a person: do not log it or label metrics with it
	Cost int64  // how many units the request takes
	limits.Decision
}

// Index returns the position of the rule in [Config].Rules.
func (d *RuleDecision) Index() int { return d.rule.index }

// Rule returns the name of the rule.
func (d *RuleDecision) Rule() string { return d.rule.name }

// Scope returns the scope in which the rule counts.
func (d *RuleDecision) Scope() string { return d.rule.scope }

// Limit returns the limit that decided: of a fallback, its share.
func (d *RuleDecision) Limit() limits.Limit { return *d.limit }

// Unit returns what Cost, the limit and Remaining count.
func (d *RuleDecision) Unit() Unit { return d.rule.unit }

// Mode returns [Enforce] or [Shadow]: a shadow does not stand in the way.
func (d *RuleDecision) Mode() Mode { return d.rule.mode }

// Binds reports whether d, rather than e, says when a request may come again or how much is left:
// it comes before e in the order of [Outcome.BindingRule].
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

// charge makes d the decision of a rule that charges cost units to key, except for what is decided.
func (d *RuleDecision) charge(rule *ruleIdentity, key string, cost int64) {
	d.rule, d.limit, d.Key, d.Cost = rule, rule.limit, key, cost
}

// inlineDecisions is how many rules an Outcome holds without allocating.
const inlineDecisions = 2

// Outcome is the answer to one request: the decision of every rule that
// applied to it, and what they come to. The zero Outcome denies. An Outcome is
// a value and may be kept; most of its methods take a pointer only because it is large.
type Outcome struct {
	answer
	first [inlineDecisions]RuleDecision
	more  []RuleDecision
}

// answer is the small part of an Outcome: its methods need no pointer, so that
// limiter.Decide(ctx, r).Allowed() compiles. No struct of it has more than four fields: the compiler
// copies larger ones wherever a method is called.
type answer struct {
	standing
	err     error
	request *request // nil: nothing to end
}

type standing struct {
	verdict    Verdict
	generation uint16 // of request
	revision   int32
	n          int32
}

type ruleIdentity struct {
	index       int
	name, scope string
	limit       *limits.Limit // of Rule.Limit
	unit        Unit
	mode        Mode // Enforce or Shadow
	capacity    bool
	onFailure   FailurePolicy

	hasEnd    bool               // what it charges has an end
	held      bool               // its units are held until then
	finalCost func(Result) int64 // nil: they are held, or there is no end
	lasts     time.Duration
	undelayed time.Duration // by which a Delay is shorter than the backend says
}

// delay returns the Delay of a decision of rule, of which the backend says d.
func (rule *ruleIdentity) delay(d time.Duration) time.Duration { return max(0, d-rule.undelayed) }

// Verdict returns what the outcome comes to.
func (o answer) Verdict() Verdict { return o.verdict }

// Allowed reports whether the request may go on.
func (o answer) Allowed() bool { return o.verdict == Allowed }

// Err returns what failed, nil if nothing did. An outcome may be allowed and
// have an error, when a fallback or an open rule stood in for a failed backend.
// It is for the operator: do not show its text to clients.
func (o answer) Err() error { return o.err }

// Len returns the number of rules that applied to the request.
func (o answer) Len() int { return int(o.n) }

// At returns the decision of the i-th rule that applied, in the order of [Config].Rules. It is a
// part of o: read it, and leave it as it is. It panics if i is not in [0, o.Len()).
func (o *Outcome) At(i int) *RuleDecision {
	if uint(i) >= uint(o.Len()) {
		panic("core: Outcome.At: index out of range")
	}
	if i < inlineDecisions {
		return &o.first[i]
	}
	return &o.more[i-inlineDecisions]
}

// Revision returns which rules decided: 1 for those of [New], and one more for each change by
// [Limiter.Replace], [Limiter.Override] or the end of an override.
func (o answer) Revision() int32 { return o.revision }

// RetryAfter returns 0 if the outcome is allowed, otherwise the longest wait
// among the decisions that stood in the way; [limits.Never] if one of them never
// yields.
func (o *Outcome) RetryAfter() time.Duration {
	var longest time.Duration
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.rule.mode == Enforce {
			longest = max(longest, d.RetryAfter)
		}
	}
	return longest
}

// Delay returns how long an allowed request has to wait for its turn before it
// goes on: the longest Delay among its decisions.
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

// Status returns the status code that an HTTP answer to the request has: 429 if o
// is denied, or 503 if only rules with DenyAs503 denied it; 503 if it is unavailable
// or abandoned; 200 if it is allowed.
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

// capacityOnly reports whether all rules that deny o are about capacity, and none because
// the request costs more than the limit ever allows, which is the client's doing.
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

// BindingRule returns the index, for [Outcome.At], of the decision that binds: a
// denied one before an allowed one, among the denied the one with the longest
// RetryAfter, then the one with the lowest Remaining, then the one with the
// longest ResetAfter, then the first. A shadow does not bind. It returns -1 if no rule
// was counted.
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

// End ends the request: units of concurrency limits are released, and every rule with a
// FinalCost is charged its final cost. A caller of [Limiter.Decide] must call End once
// an allowed request is over, best in a defer; middleware does so itself. End does
// nothing for an outcome that is not allowed, or that has no rule with an end. Of all
// calls, on the outcome and its copies and from any goroutine, only the first counts. It
// does not wait: a backend in another process is told afterwards, and what became of the
// endings is reported to [Config].Observer.
func (o *Outcome) End(result Result) {
	if o.request != nil {
		o.request.end(o.generation, result, underWay)
	}
}

// Spend adds n units to what the request has really cost under the rule of that name. The
// first call replaces the rule's estimate; see [SpentCost]. It reports whether this counts:
// not if the rule has no FinalCost or did not charge this request, n is negative, or the
// request has ended. Goroutines may call it at once. Sums above math.MaxInt64 become that.
func (o *Outcome) Spend(rule string, n int64) bool {
	return o.request != nil && n >= 0 && o.request.spend(o.generation, rule, n)
}

// Detach leaves the end of the request to the caller, who must call end when it is over;
// [Outcome.End] then does nothing. It is for a request that outlives its handler, such as
// a hijacked connection, or that is over before. ok is false, and end nil, if the request
// has nothing to end, has ended, or is detached already.
func (o *Outcome) Detach() (end func(Result), ok bool) {
	q, generation := o.request, o.generation
	if q == nil || !q.detach(generation) {
		return nil, false
	}
	return func(result Result) { q.end(generation, result, detached) }, true
}

// reset makes o an outcome in which no rule applied. It leaves the decisions as they are: the
// caller of grow sets every field.
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

// charge adds to o a rule that charges cost units to key.
func (o *Outcome) charge(rule *ruleIdentity, key string, cost int64) *limits.Decision {
	d := o.grow()
	d.charge(rule, key, cost)
	d.Decision = limits.Decision{}
	return &d.Decision
}

// record records the decision on the at-th rule of o.
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

// markAll records, for every charge of s, the decision of a source that counts
// nothing.
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

// abandonIfDue is abandonIfEnded after a failure: a backend that watches the deadline may fail
// before the context notices.
func (o *Outcome) abandonIfDue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	due := ok && !time.Now().Before(deadline)
	if due {
		o.abandon(context.DeadlineExceeded)
	}
	return due
}

// abandon makes o abandoned because of err.
func (o *Outcome) abandon(err error) {
	o.reset(Abandoned, o.revision)
	o.err = err
}

// uncounted returns the decision of a source that counts nothing.
func uncounted(source limits.Source) limits.Decision {
	if source == limits.SourceClosed {
		return limits.Decision{Source: source, RetryAfter: closedRetryAfter, EffectiveWindow: closedRetryAfter}
	}
	return limits.Decision{Source: source, Allowed: true}
}
