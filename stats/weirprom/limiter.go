package weirprom

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

var (
	requests = family("requests_total",
		"Requests by verdict. Requests that wait in a queue are allowed.", "limiter", "verdict")
	preflights = family("preflights_total",
		"CORS preflight requests that passed without a decision.", "limiter")
	queueWaiting = family("queue_waiting_requests",
		"Requests that wait for their turn in a leaky queue now.", "limiter")
	queueFull = family("queue_full_total",
		"Requests that were unavailable because no more could wait in a leaky queue.", "limiter")
	queueLeft = family("queue_left_total",
		"Requests that ended while they waited in a leaky queue.", "limiter")
	held = family("held_units",
		"Units of concurrency limits that requests under way hold.", "limiter")
	heldSince = family("held_oldest_timestamp_seconds",
		"When the oldest request began that has something to end; 0 if there is none.", "limiter")

	decisions = family("rule_decisions_total",
		"Decisions of a rule, by what it decided, whether it is enforced, and who decided.", "limiter", "rule", "decision", "mode", "source")
	binding = family("rule_binding_total",
		"Denied requests whose binding rule this was: the one that makes the client wait longest.", "limiter", "rule")
	units = family("rule_units_total",
		"Units that allowed requests have taken, before what their ends returned or charged.", "limiter", "rule")
	nearLimit = family("rule_near_limit_total",
		"Allowed requests that left a fifth of the limit or less.", "limiter", "rule")
	limitUnits = family("rule_limit_units",
		"Units that the limit allows in its period; of a concurrency limit, at once.", "limiter", "rule")
	periodSeconds = family("rule_period_seconds",
		"The period of the limit; 0 for a concurrency limit.", "limiter", "rule")
	enforcedRatio = family("rule_enforced_ratio",
		"Share of the keys for which the rule is enforced: 0 for a shadow or a disabled rule.", "limiter", "rule")
	ruleMode = family("rule_mode",
		"1 for the mode of the rule, 0 for the others; share is enforced for a share of the keys.", "limiter", "rule", "mode")
	overridden = family("rule_overridden",
		"1 while an override is in force on the rule.", "limiter", "rule")
	delay = family("queue_delay_seconds",
		"How long requests had to wait for their turn in a leaky queue.", "limiter", "rule")
	settlements = family("settlements_total",
		"Ends of requests, by what became of them: done, lost (the backend failed) or dropped (too many waited).", "limiter", "rule", "result")
	settledUnits = family("settled_units_total",
		"Units that ends of requests returned, charged in addition, or could not charge.", "limiter", "rule", "kind")
)

func (w writer) limiter(l *stats.LimiterSnapshot) {
	r := l.Requests
	w.counter(requests, r.Allowed, l.Name, core.Allowed.String())
	w.counter(requests, r.Denied, l.Name, core.Denied.String())
	w.counter(requests, r.Unavailable, l.Name, core.Unavailable.String())
	w.counter(requests, r.Abandoned, l.Name, core.Abandoned.String())
	w.counter(preflights, l.Preflights, l.Name)
	w.gauge(queueWaiting, float64(l.Waiting), l.Name)
	w.counter(queueFull, l.QueueFull, l.Name)
	w.counter(queueLeft, l.QueueLeft, l.Name)
	w.gauge(held, float64(l.Held), l.Name)
	w.gauge(heldSince, seconds(l.HeldSince), l.Name)
	for i := range l.Rules {
		w.rule(l.Name, &l.Rules[i])
	}
}

func (w writer) rule(limiter string, r *stats.RuleSnapshot) {
	for _, d := range r.Decisions {
		w.counter(decisions, d.Count, limiter, r.Name, decision(d.Allowed), d.Mode.String(), d.Source.String())
	}
	w.counter(binding, r.Binding, limiter, r.Name)
	w.counter(units, r.Units, limiter, r.Name)
	w.counter(nearLimit, r.NearLimit, limiter, r.Name)
	if mayDelay(r) {
		w.histogram(delay, &r.Delay, limiter, r.Name)
	}
	s := r.Settlements
	w.counter(settlements, s.Ended-s.Lost-s.Dropped, limiter, r.Name, "done")
	w.counter(settlements, s.Lost, limiter, r.Name, "lost")
	w.counter(settlements, s.Dropped, limiter, r.Name, "dropped")
	w.counter(settledUnits, s.Returned, limiter, r.Name, "returned")
	w.counter(settledUnits, s.Charged, limiter, r.Name, "charged")
	w.counter(settledUnits, s.Forgiven, limiter, r.Name, "forgiven")
	if r.InForce {
		w.inForce(limiter, r)
	}
}

// inForce sends what a rule is now. A rule with a LimitFor has no limit of its own.
func (w writer) inForce(limiter string, r *stats.RuleSnapshot) {
	if r.Limit != (limits.Limit{}) {
		units := r.Limit.Rate().Units
		if r.Limit.Algorithm() == limits.AlgorithmConcurrent {
			units = r.Limit.Burst()
		}
		w.gauge(limitUnits, float64(units), limiter, r.Name)
		w.gauge(periodSeconds, r.Limit.Rate().Period.Seconds(), limiter, r.Name)
	}
	w.gauge(enforcedRatio, float64(r.Mode.Percent())/100, limiter, r.Name)
	mode := r.Mode.String()
	if p := r.Mode.Percent(); p != 0 && p != 100 {
		mode = "share"
	}
	for _, m := range [...]string{"enforce", "share", "shadow", "disabled"} {
		w.gauge(ruleMode, oneIf(m == mode), limiter, r.Name, m)
	}
	w.gauge(overridden, oneIf(!r.Override.Until.IsZero()), limiter, r.Name)
}

// mayDelay reports whether requests of r may have to wait: r has a leaky queue, had one, or
// finds its limit by LimitFor.
func mayDelay(r *stats.RuleSnapshot) bool {
	return r.InForce && (r.Limit == limits.Limit{} || r.Limit.Algorithm() == limits.AlgorithmLeakyQueue) || r.Delay.Count() > 0
}

func decision(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns t in seconds since 1970, 0 for the zero Time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}
