package weirotel

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// Attributes of metrics and spans.
const (
	limiterName = attribute.Key("weir.limiter.name")
	ruleName    = attribute.Key("weir.policy_rule.name")
	verdict     = attribute.Key("weir.verdict")  // allowed, denied, unavailable, abandoned
	decision    = attribute.Key("weir.decision") // allowed, denied
	mode        = attribute.Key("weir.mode")     // enforce, shadow
	source      = attribute.Key("weir.decision.source")
	result      = attribute.Key("weir.result")
	kind        = attribute.Key("weir.kind")
)

var (
	requests     = &instrument{"weir.requests", "{request}", "Requests by verdict. Requests that wait in a queue are allowed."}
	preflights   = &instrument{"weir.preflights", "{request}", "CORS preflight requests that passed without a decision."}
	queueWaiting = &instrument{"weir.queue.waiting", "{request}", "Requests that wait for their turn in a leaky queue now."}
	queueFull    = &instrument{"weir.queue.full", "{request}", "Requests that were unavailable because no more could wait in a leaky queue."}
	queueLeft    = &instrument{"weir.queue.left", "{request}", "Requests that ended while they waited in a leaky queue."}
	queueDelay   = &instrument{"weir.queue.delay", "s", "How long requests had to wait for their turn in a leaky queue."}
	held         = &instrument{"weir.held", "{unit}", "Units of concurrency limits that requests under way hold."}
	heldAge      = &instrument{"weir.held.age", "s", "Age of the oldest request that has something to end; 0 if there is none."}

	decisions    = &instrument{"weir.rate_limiting.decisions", "{decision}", "Decisions of a rule, by what it decided, whether it is enforced, and who decided."}
	binding      = &instrument{"weir.rate_limiting.binding", "{request}", "Denied requests whose binding rule this was: the one that makes the client wait longest."}
	units        = &instrument{"weir.rate_limiting.units", "{unit}", "Units that allowed requests have taken, before what their ends returned or charged."}
	nearLimit    = &instrument{"weir.rate_limiting.near_limit", "{request}", "Allowed requests that left a fifth of the limit or less."}
	limitUnits   = &instrument{"weir.rate_limiting.limit", "{unit}", "Units that the limit allows in its period; of a concurrency limit, at once."}
	period       = &instrument{"weir.rate_limiting.period", "s", "The period of the limit; 0 for a concurrency limit."}
	enforced     = &instrument{"weir.rate_limiting.enforced", "1", "Share of the keys for which the rule is enforced."}
	overridden   = &instrument{"weir.rate_limiting.overridden", "1", "1 while an override is in force on the rule."}
	settlements  = &instrument{"weir.settlements", "{settlement}", "Ends of requests, by what became of them: done, lost (the backend failed) or dropped (too many waited)."}
	settledUnits = &instrument{"weir.settlements.units", "{unit}", "Units that ends of requests returned, charged in addition, or could not charge."}
)

func (b *batch) limiter(l *stats.LimiterSnapshot) {
	of := limiterName.String(l.Name)
	r := l.Requests
	b.counter(requests, r.Allowed, of, verdict.String(core.Allowed.String()))
	b.counter(requests, r.Denied, of, verdict.String(core.Denied.String()))
	b.counter(requests, r.Unavailable, of, verdict.String(core.Unavailable.String()))
	b.counter(requests, r.Abandoned, of, verdict.String(core.Abandoned.String()))
	b.counter(preflights, l.Preflights, of)
	b.gauge(queueWaiting, float64(l.Waiting), of)
	b.counter(queueFull, l.QueueFull, of)
	b.counter(queueLeft, l.QueueLeft, of)
	b.gauge(held, float64(l.Held), of)
	age := time.Duration(0)
	if !l.HeldSince.IsZero() {
		age = max(0, b.shot.At.Sub(l.HeldSince))
	}
	b.gauge(heldAge, age.Seconds(), of)
	for i := range l.Rules {
		b.rule(of, &l.Rules[i])
	}
}

// mayDelay reports whether requests of r may have to wait: r has a leaky queue, had one, or
// finds its limit by LimitFor.
func mayDelay(r *stats.RuleSnapshot) bool {
	return r.InForce && (r.Limit == limits.Limit{} || r.Limit.Algorithm() == limits.AlgorithmLeakyQueue) || r.Delay.Count() > 0
}

func (b *batch) rule(limiter attribute.KeyValue, r *stats.RuleSnapshot) {
	rule := ruleName.String(r.Name)
	for _, d := range r.Decisions {
		b.counter(decisions, d.Count, limiter, rule, decision.String(decided(d.Allowed)), mode.String(d.Mode.String()), source.String(d.Source.String()))
	}
	b.counter(binding, r.Binding, limiter, rule)
	b.counter(units, r.Units, limiter, rule)
	b.counter(nearLimit, r.NearLimit, limiter, rule)
	if mayDelay(r) {
		b.histogram(queueDelay, &r.Delay, limiter, rule)
	}
	s := r.Settlements
	b.counter(settlements, s.Ended-s.Lost-s.Dropped, limiter, rule, result.String("done"))
	b.counter(settlements, s.Lost, limiter, rule, result.String("lost"))
	b.counter(settlements, s.Dropped, limiter, rule, result.String("dropped"))
	b.counter(settledUnits, s.Returned, limiter, rule, kind.String("returned"))
	b.counter(settledUnits, s.Charged, limiter, rule, kind.String("charged"))
	b.counter(settledUnits, s.Forgiven, limiter, rule, kind.String("forgiven"))
	if !r.InForce {
		return
	}
	if r.Limit != (limits.Limit{}) { // one with a LimitFor has no limit of its own
		most := r.Limit.Rate().Units
		if r.Limit.Algorithm() == limits.AlgorithmConcurrent {
			most = r.Limit.Burst()
		}
		b.gauge(limitUnits, float64(most), limiter, rule)
		b.gauge(period, r.Limit.Rate().Period.Seconds(), limiter, rule)
	}
	b.gauge(enforced, float64(r.Mode.Percent())/100, limiter, rule)
	b.gauge(overridden, oneIf(!r.Override.Until.IsZero()), limiter, rule)
}

func decided(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
