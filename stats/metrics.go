package stats

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
)

// Metric is one metric of a [Snapshot], with its names in Prometheus and in OpenTelemetry.
type Metric struct {
	// Name and Labels follow https://prometheus.io/docs/practices/naming/:
	// weir_rule_units_total with the labels limiter and rule.
	Name   string
	Labels []string

	// Instrument and Attributes follow https://opentelemetry.io/docs/specs/semconv/general/naming/:
	// weir.rate_limiting.units with weir.limiter.name and weir.policy_rule.name. Attributes are in
	// the order of Labels, one for each.
	Instrument string
	Attributes []string

	// Kind is "counter", "gauge", "timestamp" or "histogram". A timestamp is a gauge in Prometheus:
	// seconds since 1970, or 0 for none. OpenTelemetry shows an age instead, and Instrument ends in
	// "age".
	Kind string
	Unit string // in the notation of OpenTelemetry, such as "s", "{request}" or "1"
	Help string

	Series []Series
}

type Series struct {
	Labels    []string  // the values of Metric.Labels
	Value     float64   // exact for counts up to 2^53
	Histogram Histogram // set instead of Value if Kind is "histogram"
}

// table lists all metrics, with the names and attributes of OpenTelemetry without the prefix
// "weir.". A gauge without a unit is 1 or 0.
var table = [...]struct{ name, kind, unit, labels, help string }{
	{"requests", "counter", "{request}", "limiter.name verdict",
		"Requests by verdict. Requests that wait in a queue are allowed."},
	{"preflights", "counter", "{request}", "limiter.name",
		"CORS preflight requests that passed without a decision."},
	{"queue.waiting", "gauge", "{request}", "limiter.name",
		"Requests that wait for their turn in a leaky queue now."},
	{"queue.full", "counter", "{request}", "limiter.name",
		"Requests that were unavailable because no more could wait in a leaky queue."},
	{"queue.left", "counter", "{request}", "limiter.name",
		"Requests that ended while they waited in a leaky queue."},
	{"instances", "gauge", "{instance}", "limiter.name",
		"Processes among which a fallback divides the limits while the backend fails."},
	{"held", "gauge", "{unit}", "limiter.name",
		"Units of concurrency limits that requests under way hold."},
	{"held.age", "timestamp", "s", "limiter.name", "Since when the oldest request that has " +
		"something to end has been under way; 0 if there is none."},

	{"rate_limiting.decisions", "counter", "{decision}",
		"limiter.name policy_rule.name decision mode decision.source",
		"Decisions of a rule, by what it decided, whether it is enforced, and who decided."},
	{"rate_limiting.failures", "counter", "{decision}", "limiter.name policy_rule.name error.type",
		"Decisions that a rule could not make, by what failed: its key, limit or cost, the " +
			"backend, or the fallback."},
	{"rate_limiting.binding", "counter", "{request}", "limiter.name policy_rule.name",
		"Denied requests whose binding rule this was: the one that makes the client wait longest."},
	{"rate_limiting.units", "counter", "{unit}", "limiter.name policy_rule.name",
		"Units that allowed requests have taken, before what their ends returned or charged."},
	{"rate_limiting.near_limit", "counter", "{request}", "limiter.name policy_rule.name",
		"Allowed requests that left a fifth of the limit or less."},
	{"rate_limiting.limit", "gauge", "{unit}", "limiter.name policy_rule.name",
		"Units that the limit allows in its period; of a concurrency limit, at once."},
	{"rate_limiting.period", "gauge", "s", "limiter.name policy_rule.name",
		"The period of the limit; 0 for a concurrency limit."},
	{"rate_limiting.enforced", "gauge", "1", "limiter.name policy_rule.name",
		"Share of the keys for which the rule is enforced: 0 for a shadow or a disabled rule."},
	{"rate_limiting.mode", "gauge", "", "limiter.name policy_rule.name mode",
		"1 for the mode of the rule, 0 for the others; share is enforced for a share of the keys."},
	{"rate_limiting.overridden", "gauge", "", "limiter.name policy_rule.name",
		"1 while an override is in force on the rule."},
	{"queue.delay", "histogram", "s", "limiter.name policy_rule.name",
		"How long requests had to wait for their turn in a leaky queue."},
	{"settlements", "counter", "{settlement}", "limiter.name policy_rule.name result",
		"Ends of requests, by what became of them: done, lost (the backend failed) or dropped " +
			"(too many waited)."},
	{"settlements.units", "counter", "{unit}", "limiter.name policy_rule.name kind",
		"Units that ends of requests returned, charged in addition, or could not charge."},

	{"shed.requests", "counter", "{request}", "shedder.name shed.class shed.verdict",
		"Requests that a shedder decided, by class: admitted, shed (answered 503), shadowed " +
			"(would have been shed) or left (the request's context ended in the queue: its " +
			"client left, or the server was over its deadline or shut down). No exempt ones."},
	{"shed.ahead", "counter", "{request}", "shedder.name shed.class",
		"Requests among those that were shed or shadowed: services behind would have shed them. " +
			"Only where there were any."},
	{"shed.in_flight", "gauge", "{request}", "shedder.name shed.class",
		"Requests in flight, by class. Streams and exempt requests are not in flight."},
	{"shed.waiting", "gauge", "{request}", "shedder.name shed.class",
		"Requests that wait in the queue of a shedder now."},
	{"shed.class.share", "gauge", "1", "shedder.name shed.class",
		"How much of the limit a class and all that are more important may fill."},
	{"shed.exempt", "counter", "{request}", "shedder.name", "Requests that a shedder never sheds."},
	{"shed.limit", "gauge", "{request}", "shedder.name",
		"How many requests may be in flight at once: what the shedder has learned."},
	{"shed.max_limit", "gauge", "{request}", "shedder.name",
		"What the limit of a shedder never exceeds."},
	{"shed.streams", "gauge", "{stream}", "shedder.name",
		"Answers that have become streams, so that they are no longer in flight."},
	{"shed.oldest", "gauge", "s", "shedder.name",
		"For how long the oldest request in flight has been running; 0 if there is none."},
	{"shed.mode", "gauge", "", "shedder.name mode",
		"1 for the mode of the shedder, 0 for the others."},
	{"shed.algorithm.panics", "counter", "{panic}", "shedder.name",
		"Panics of the algorithm that finds the limit, which left the limit as it was."},

	{"backend.operation.duration", "histogram", "s", "backend.name backend.operation result",
		"How long calls of a backend took."},
	{"backend.operation.errors", "counter", "{error}", "backend.name backend.operation error.type",
		"Calls of a backend that failed, by reason."},
	{"breaker.open", "gauge", "", "breaker.name",
		"1 while the circuit breaker is open, so that its backend is not asked."},
	{"breaker.changes", "counter", "{change}", "breaker.name breaker.state",
		"How often the circuit breaker changed to a state."},
	{"memory.keys", "gauge", "{key}", "memory.name",
		"Keys with live state in a memory, counted every 10 s at most."},
	{"memory.max_keys", "gauge", "{key}", "memory.name", "Keys that a memory has room for."},
	{"memory.displaced", "counter", "{key}", "memory.name",
		"Keys whose place others took, because the memory was full."},
	{"lease.held", "gauge", "{unit}", "backend.name",
		"Units of a backend that this process has taken in advance and may spend now."},
	{"lease.keys", "gauge", "{key}", "backend.name", "Keys of which this process holds units."},
	{"lease.blocks", "counter", "{block}", "backend.name result", "Blocks of units that were " +
		"asked for: taken, denied because too little remained, or failed because the backend " +
		"did not answer."},
	{"lease.units", "counter", "{unit}", "backend.name kind", "Units of blocks: taken; returned " +
		"to the backend; void, that is neither spent nor returned."},

	{"policy.loads", "counter", "{load}", "policy.name result", "Loads of a policy file: " +
		"applied, or failed, so that the policy of before stayed in force."},
	{"policy.age", "timestamp", "s", "policy.name",
		"Since when the policy in force has been applied."},
	{"policy.failing", "gauge", "", "policy.name", "1 while the file is not the policy in force."},
	{"policy.info", "gauge", "", "policy.name policy.digest",
		"1, with the digest of the policy in force."},
}

// Metrics returns the numbers of s as metrics, for exporters. All metrics are present, always in
// the same order, even those without series.
//
// A series exists with the value 0 from the start if a rate or an alert needs its first event.
// These series exist only once there is something to count: decisions by leases, by denial caches
// and in a mode that the rule is not in; limits and costs that fail; ends of requests; leaky
// queues; preflights; leases; numbers of instances; requests that a shadow shedder would have shed; failed calls of a
// backend and calls other than Take.
func (s Snapshot) Metrics() []Metric {
	all := make([]Metric, len(table))
	m := make(metrics, len(table))
	for i := range table {
		all[i] = metric(i)
		m[table[i].name] = &all[i]
	}
	for i := range s.Limiters {
		m.limiter(&s.Limiters[i])
	}
	for i := range s.Shedders {
		m.shedder(&s.Shedders[i])
	}
	for i := range s.Backends {
		m.backend(&s.Backends[i])
	}
	for _, b := range s.Breakers {
		add(m, "breaker.open", bit(b.Open), b.Name)
		add(m, "breaker.changes", b.Opened, b.Name, "open")
		add(m, "breaker.changes", max(0, b.Opened-int64(bit(b.Open))), b.Name, "closed")
	}
	for _, memory := range s.Memories {
		add(m, "memory.keys", memory.Keys, memory.Name)
		add(m, "memory.max_keys", memory.MaxKeys, memory.Name)
		add(m, "memory.displaced", memory.Displaced, memory.Name)
	}
	for i := range s.Leases {
		m.leases(&s.Leases[i])
	}
	for i := range s.Policies {
		m.policy(&s.Policies[i])
	}
	return all
}

// metric returns the i-th metric of the table, without series.
func metric(i int) Metric {
	row := &table[i]
	m := Metric{
		Name: prometheusName(row.name, row.kind, row.unit), Instrument: "weir." + row.name,
		Kind: row.kind, Unit: row.unit, Help: row.help,
	}
	if row.unit == "" {
		m.Unit = "1"
	}
	for _, attribute := range strings.Fields(row.labels) {
		m.Labels = append(m.Labels, prometheusLabel(attribute))
		if attribute != errorType {
			attribute = "weir." + attribute
		}
		m.Attributes = append(m.Attributes, attribute)
	}
	return m
}

// errorType is an attribute of OpenTelemetry's semantic conventions.
const errorType = "error.type"

// shorter turns words of OpenTelemetry names into those of Prometheus names, such as rate_limiting
// into rule. Prometheus shows timestamps where OpenTelemetry shows ages.
var shorter = strings.NewReplacer(
	"rate_limiting", "rule",
	"backend.operation", "backend",
	"settlements.units", "settled_units",
	"held.age", "held_oldest_timestamp",
	"policy.age", "policy_applied_timestamp",
	".", "_",
)

// prometheusName returns the name in Prometheus. A counter ends in _total, any other metric in its
// unit.
func prometheusName(name, kind, unit string) string {
	name = "weir_" + shorter.Replace(name)
	switch counted := strings.Trim(unit, "{}") + "s"; {
	case kind == "counter":
		return name + "_total"
	case unit == "s":
		return name + "_seconds"
	case unit == "1":
		return name + "_ratio"
	case unit == "" || strings.HasSuffix(name, counted):
		return name
	default:
		return name + "_" + counted
	}
}

// prometheusLabel returns the label for an attribute: the word before ".name", or the last word.
func prometheusLabel(attribute string) string {
	switch attribute {
	case "policy_rule.name":
		return "rule"
	case "breaker.state":
		return "to"
	case errorType:
		return "reason"
	}
	of := strings.TrimSuffix(attribute, ".name")
	return of[strings.LastIndexByte(of, '.')+1:]
}

// metrics holds the metrics of one snapshot by their names in the table.
type metrics map[string]*Metric

// add adds a series. It keeps labels.
func add[N int | int64 | float64](to metrics, name string, value N, labels ...string) {
	to[name].Series = append(to[name].Series, Series{Labels: labels, Value: float64(value)})
}

func (m metrics) durations(name string, h Histogram, labels ...string) {
	m[name].Series = append(m[name].Series, Series{Labels: labels, Histogram: h})
}

func (m metrics) time(name string, t time.Time, labels ...string) {
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	add(m, name, float64(t.UnixMicro())/1e6, labels...)
}

// states adds a series for each state: 1 for the current state, 0 for the others. The zeros are
// there because some systems notice late that a series is gone.
func (m metrics) states(name, holds string, states []string, labels ...string) {
	for _, state := range states {
		add(m, name, bit(state == holds), append(slices.Clip(labels), state)...)
	}
}

func (m metrics) limiter(l *LimiterSnapshot) {
	add(m, "requests", l.Requests.Allowed, l.Name, core.Allowed.String())
	add(m, "requests", l.Requests.Denied, l.Name, core.Denied.String())
	add(m, "requests", l.Requests.Unavailable, l.Name, core.Unavailable.String())
	add(m, "requests", l.Requests.Abandoned, l.Name, core.Abandoned.String())
	if l.Preflights > 0 {
		add(m, "preflights", l.Preflights, l.Name)
	}
	if l.Instances > 0 {
		add(m, "instances", l.Instances, l.Name)
	}
	queues := l.Waiting > 0 || l.QueueFull > 0 || l.QueueLeft > 0
	ends := l.Held > 0 || !l.HeldSince.IsZero()
	for i := range l.Rules {
		rule := &l.Rules[i]
		m.rule(l.Name, rule)
		queues, ends = queues || rule.queues(), ends || rule.ends()
	}
	if queues {
		add(m, "queue.waiting", l.Waiting, l.Name)
		add(m, "queue.full", l.QueueFull, l.Name)
		add(m, "queue.left", l.QueueLeft, l.Name)
	}
	if ends {
		add(m, "held", l.Held, l.Name)
		m.time("held.age", l.HeldSince, l.Name)
	}
}

func (m metrics) rule(limiter string, rule *RuleSnapshot) {
	for _, d := range rule.Decisions {
		decision := core.Denied
		if d.Allowed {
			decision = core.Allowed
		}
		add(m, "rate_limiting.decisions", d.Count, limiter, rule.Name, decision.String(),
			d.Mode.String(), d.Source.String())
	}
	m.failures(limiter, rule)
	add(m, "rate_limiting.binding", rule.Binding, limiter, rule.Name)
	add(m, "rate_limiting.units", rule.Units, limiter, rule.Name)
	add(m, "rate_limiting.near_limit", rule.NearLimit, limiter, rule.Name)
	if rule.queues() {
		m.durations("queue.delay", rule.Delay, limiter, rule.Name)
	}
	if rule.ends() {
		s := rule.Settlements
		add(m, "settlements", s.Ended-s.Lost-s.Dropped, limiter, rule.Name, "done")
		add(m, "settlements", s.Lost, limiter, rule.Name, "lost")
		add(m, "settlements", s.Dropped, limiter, rule.Name, "dropped")
		add(m, "settlements.units", s.Returned, limiter, rule.Name, "returned")
		add(m, "settlements.units", s.Charged, limiter, rule.Name, "charged")
		add(m, "settlements.units", s.Forgiven, limiter, rule.Name, "forgiven")
	}
	if rule.InForce {
		m.inForce(limiter, rule)
	}
}

// failures adds the failures of a rule. Most rules have no function other than Key.
func (m metrics) failures(limiter string, rule *RuleSnapshot) {
	f := rule.Failures
	for part, n := range [failure.Parts]int64{f.Key, f.Limit, f.Cost, f.Backend, f.Fallback} {
		if part := failure.Part(part); n > 0 || part != failure.Limit && part != failure.Cost {
			add(m, "rate_limiting.failures", n, limiter, rule.Name, part.String())
		}
	}
}

// inForce adds the current settings of a rule. A rule with a LimitFor has no limit of its own.
func (m metrics) inForce(limiter string, rule *RuleSnapshot) {
	if rule.Limit != (limits.Limit{}) {
		units := rule.Limit.Rate().Units
		if algorithm.Of(rule.Limit.Algorithm()).Held {
			units = rule.Limit.Burst()
		}
		add(m, "rate_limiting.limit", units, limiter, rule.Name)
		add(m, "rate_limiting.period", rule.Limit.Rate().Period.Seconds(), limiter, rule.Name)
	}
	share, mode := rule.Mode.Percent(), rule.Mode.String()
	if 0 < share && share < 100 {
		mode = "share"
	}
	add(m, "rate_limiting.enforced", float64(share)/100, limiter, rule.Name)
	m.states("rate_limiting.mode", mode, []string{"enforce", "share", "shadow", "disabled"},
		limiter, rule.Name)
	add(m, "rate_limiting.overridden", bit(!rule.Override.Until.IsZero()), limiter, rule.Name)
}

func (m metrics) shedder(s *ShedderSnapshot) {
	for _, c := range s.Classes {
		add(m, "shed.requests", c.Admitted, s.Name, c.Name, "admitted")
		add(m, "shed.requests", c.Shed, s.Name, c.Name, "shed")
		add(m, "shed.requests", c.Left, s.Name, c.Name, "left")
		if s.Mode == core.Shadow || c.Shadowed > 0 {
			add(m, "shed.requests", c.Shadowed, s.Name, c.Name, "shadowed")
		}
		if c.Ahead > 0 {
			add(m, "shed.ahead", c.Ahead, s.Name, c.Name)
		}
		add(m, "shed.in_flight", c.InFlight, s.Name, c.Name)
		add(m, "shed.waiting", c.Waiting, s.Name, c.Name)
		add(m, "shed.class.share", float64(c.Share)/100, s.Name, c.Name)
	}
	add(m, "shed.exempt", s.ExemptTotal, s.Name)
	add(m, "shed.limit", s.Limit, s.Name)
	add(m, "shed.max_limit", s.MaxInFlight, s.Name)
	add(m, "shed.streams", s.Streams, s.Name)
	add(m, "shed.oldest", s.Oldest.Seconds(), s.Name)
	m.states("shed.mode", s.Mode.String(), []string{"enforce", "shadow", "disabled"}, s.Name)
	add(m, "shed.algorithm.panics", s.Panics, s.Name)
}

func (m metrics) backend(b *BackendSnapshot) {
	for _, op := range b.Operations {
		failed := op.Failed.Count() > 0
		if !failed && op.Succeeded.Count() == 0 && op.Name != operationNames[opTake] {
			continue
		}
		m.durations("backend.operation.duration", op.Succeeded, b.Name, op.Name, "success")
		if failed {
			m.durations("backend.operation.duration", op.Failed, b.Name, op.Name, "failure")
		}
		add(m, "backend.operation.errors", op.Errors.Timeout, b.Name, op.Name, "timeout")
		add(m, "backend.operation.errors", op.Errors.Canceled, b.Name, op.Name, "canceled")
		add(m, "backend.operation.errors", op.Errors.Unsupported, b.Name, op.Name, "unsupported")
		add(m, "backend.operation.errors", op.Errors.Other, b.Name, op.Name, "other")
	}
}

func (m metrics) leases(l *LeaseSnapshot) {
	if l.BlocksTaken+l.BlocksDenied+l.BlocksFailed == 0 {
		return
	}
	add(m, "lease.held", l.Held, l.Name)
	add(m, "lease.keys", l.Keys, l.Name)
	add(m, "lease.blocks", l.BlocksTaken, l.Name, "taken")
	add(m, "lease.blocks", l.BlocksDenied, l.Name, "denied")
	add(m, "lease.blocks", l.BlocksFailed, l.Name, "failed")
	add(m, "lease.units", l.UnitsTaken, l.Name, "taken")
	add(m, "lease.units", l.UnitsReturned, l.Name, "returned")
	add(m, "lease.units", l.UnitsVoid, l.Name, "void")
}

func (m metrics) policy(p *PolicySnapshot) {
	add(m, "policy.loads", p.Applied, p.Name, "applied")
	add(m, "policy.loads", p.Failed, p.Name, "failed")
	m.time("policy.age", p.AppliedAt, p.Name)
	add(m, "policy.failing", bit(p.Failure != ""), p.Name)
	add(m, "policy.info", 1, p.Name, strings.ToValidUTF8(p.Digest[:min(12, len(p.Digest))], ""))
}
