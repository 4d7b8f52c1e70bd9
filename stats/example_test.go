package stats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

// stdout returns a logger that writes no times, for examples.
func stdout() *slog.Logger {
	return slog.New(
		slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "retry_after" {
				return slog.Attr{}
			}
			return a
		}}))
}

var perClient = core.Rule[string]{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(2)), Key: byText}

// A limiter of net/http, counted.
func Example() {
	counts := stats.New(stats.Options{Logger: discard})
	api := counts.Limiter("api")
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.FixedWindow(limits.PerDay(2)),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		Observer: api,
	})

	handler := limiter.Handler(http.NotFoundHandler())
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	for _, l := range counts.Snapshot().Limiters {
		fmt.Printf("%s: %+v\n", l.Name, l.Requests)
		for _, key := range l.Top.Keys {
			fmt.Printf("%s: denied %d times by %s\n", key.Key, key.Count, key.Rule)
		}
	}
	// Output:
	// api: {Allowed:2 Denied:3 Unavailable:0 Abandoned:0}
	// 192.0.2.1: denied 3 times by per-client
}

func ExampleNew() {
	counts := stats.New(stats.Options{Logger: discard})
	l := core.MustNew(core.Config[string]{
		Rules:    []core.Rule[string]{perClient},
		Observer: counts.Limiter("jobs"),
	})
	for range 3 {
		l.Decide(context.Background(), "ann")
	}
	fmt.Println(counts.Snapshot().Limiters[0].Requests.Denied, "denied")
	// Output: 1 denied
}

// Log lines name a key only as the operator says.
func ExampleOptions() {
	options := stats.Options{
		Logger: stdout(),
		Key: func(_, key string) string {
			if len(key) < 8 {
				return ""
			}
			return key[:4] + "…"
		},
	}
	fmt.Println(options.Key("per-key", "5e884898da28047151d0e56f8dc62927"))
	// Output: 5e88…
}

func ExampleStats() {
	counts := stats.New(stats.Options{}) // one for the program
	counts.Limiter("api")
	counts.Limiter("log-in")
	for _, l := range counts.Snapshot().Limiters {
		fmt.Println(l.Name)
	}
	// Output:
	// api
	// log-in
}

func ExampleStats_Limiter() {
	counts := stats.New(stats.Options{})
	site, group := counts.Limiter("api"), counts.Limiter("api") // two limiters, counted together
	fmt.Println(site == group)
	// Output: true
}

// A function of the program is told, and then the counters.
func ExampleCounters_ObserveDecision() {
	counts := stats.New(stats.Options{})
	trace := func(_ context.Context, job string, o core.Outcome) { fmt.Println(job, o.Verdict()) }
	l := core.MustNew(core.Config[string]{
		Rules:    []core.Rule[string]{perClient},
		Observer: core.ObserverFuncs[string]{OnDecision: trace, Next: counts.Limiter("jobs")},
	})
	l.Decide(context.Background(), "ann")
	fmt.Println(counts.Snapshot().Limiters[0].Requests.Total())
	// Output:
	// ann allowed
	// 1
}

func ExampleLimiter() {
	jobs := stats.New(stats.Options{}).Limiter("jobs")
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{perClient}, Observer: jobs})
	o := l.Decide(context.Background(), "ann")
	o.End(core.Result{})
	fmt.Println(o.Verdict())
	// Output: allowed
}

func ExampleCounters_ObserveLimiter() {
	counts := stats.New(stats.Options{})
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{perClient}})
	counts.Limiter("jobs").ObserveLimiter(l)
	for _, rule := range counts.Snapshot().Limiters[0].Rules {
		fmt.Println(rule.Name, rule.Limit, rule.Mode, rule.Units)
	}
	// Output: per-client fixed-window 2/1d enforce 0
}

// What requests really cost, beside what they were estimated at.
func ExampleCounters_ObserveEnd() {
	counts := stats.New(stats.Options{})
	jobs := counts.Limiter("jobs")
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{{
			Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1000)), Key: byText,
			Cost: func(string) int64 { return 100 }, FinalCost: core.SpentCost,
		}},
		Observer: jobs,
	})
	o := l.Decide(context.Background(), "ann")
	o.Spend("tokens", 30)
	o.End(core.Result{})
	rule := counts.Snapshot().Limiters[0].Rules[0]
	fmt.Println(rule.Units, "units,", rule.Settlements.Returned, "returned")
	// Output: 100 units, 70 returned
}

func ExampleOther() {
	fmt.Println(stats.Other)
	// Output: (other)
}

// The clock is inside the breaker: a call that the breaker refuses is no call.
func ExampleStats_Backend() {
	counts := stats.New(stats.Options{})
	far := memory.MustNew(memory.Options{}) // or redisbackend.New(…)
	stack := remote.MustNewStack(counts.Backend("redis", far), remote.StackOptions{})
	counts.WatchBreaker("redis", stack.Status)

	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{perClient}, Backend: stack})
	l.Decide(context.Background(), "ann")
	shot := counts.Snapshot()
	for _, op := range shot.Backends[0].Operations[:2] {
		fmt.Println(op.Name, op.Succeeded.Count(), op.Failed.Count())
	}
	fmt.Println(shot.Breakers[0].State)
	// Output:
	// take 1 0
	// peek 0 0
	// closed
}

func ExampleBackend() {
	timed := stats.New(stats.Options{}).Backend("redis", memory.MustNew(memory.Options{}))
	fmt.Println(backends.CanSettle(timed), backends.Supports(timed, limits.Concurrent(3)))
	// Output: true true
}

func ExampleStats_WatchMemory() {
	counts := stats.New(stats.Options{})
	store := memory.MustNew(memory.Options{MaxKeys: 10_000})
	counts.WatchMemory("local", store)
	l := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{perClient}, Backend: store})
	l.Decide(context.Background(), "ann")
	m := counts.Snapshot().Memories[0]
	fmt.Println(m.Keys, "of", m.MaxKeys, "keys,", m.Displaced, "displaced")
	// Output: 1 of 10000 keys, 0 displaced
}

func ExampleStats_WatchBreaker() {
	counts := stats.New(stats.Options{})
	b := remote.MustNewBreaker(memory.MustNew(memory.Options{}), remote.BreakerOptions{})
	counts.WatchBreaker("redis", b.Status)
	got := counts.Snapshot().Breakers[0]
	fmt.Println(got.Name, got.State, got.Opened)
	// Output: redis closed 0
}

func ExampleStats_WatchLeases() {
	counts := stats.New(stats.Options{})
	stack := remote.MustNewStack(memory.MustNew(memory.Options{}), remote.StackOptions{Lease: time.Second})
	counts.WatchLeases("redis", stack.Leases)
	got := counts.Snapshot().Leases[0]
	fmt.Println(got.Name, got.Held, "units held")
	// Output: redis 0 units held
}

// What is shed is counted by class, apart from what limiters deny.
func ExampleStats_WatchShedder() {
	counts := stats.New(stats.Options{Logger: discard})
	shedder := shed.MustNew(shed.Options[*http.Request]{
		Classes: []shed.Class{{Name: "critical"}, {Name: "other"}},
		Limit:   2,
	})
	counts.WatchShedder("api", shedder)
	for range 3 { // at once
		shedder.Acquire(context.Background(), httptest.NewRequest("GET", "/", nil))
	}
	api := counts.Snapshot().Shedders[0]
	for _, class := range api.Classes {
		fmt.Println(api.Name, class.Name, "admitted", class.Admitted, "shed", class.Shed)
	}
	// Output:
	// api critical admitted 0 shed 0
	// api other admitted 1 shed 2
}

// status stands for the Status of package policy.
type status struct{}

func (status) Digest() string                 { return "1f3a" }
func (status) Applied() time.Time             { return time.Now() }
func (status) Failure() (time.Time, error)    { return time.Time{}, nil }
func (status) Loads() (applied, failed int64) { return 1, 0 }

// A program loads its policy, watches the file, and has it counted:
//
//	p, err := policy.Load("limits.yaml", names)
//	status := p.Status()
//	counts.WatchPolicy("limits.yaml", status)
//	go policy.Watch(ctx, p, limiter.Replace, policy.Options{Status: status})
func ExampleStats_WatchPolicy() {
	counts := stats.New(stats.Options{})
	counts.WatchPolicy("limits.yaml", status{})
	for _, p := range counts.Snapshot().Policies {
		fmt.Println(p.Name, p.Digest, p.Applied, "applied", p.Failed, "failed")
	}
	// Output: limits.yaml 1f3a 1 applied 0 failed
}

// A snapshot as JSON, for expvar: expvar.Publish("weir", expvar.Func(func() any { return counts.Snapshot() })).
func ExampleStats_Snapshot() {
	counts := stats.New(stats.Options{Logger: discard})
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{perClient}, Observer: counts.Limiter("jobs"),
	})
	for range 3 {
		l.Decide(context.Background(), "ann") // the key is not in the JSON
	}
	text, err := json.Marshal(counts.Snapshot().Limiters[0].Requests)
	fmt.Println(string(text), err)
	// Output: {"Allowed":2,"Denied":1,"Unavailable":0,"Abandoned":0} <nil>
}

// shot returns a snapshot of a limiter that has allowed two requests and denied three.
func shot() stats.Snapshot {
	counts := stats.New(stats.Options{Logger: discard})
	next := core.Rule[string]{
		Name: "tomorrow", Limit: limits.FixedWindow(limits.PerDay(1)), Key: byText, Mode: core.Shadow,
	}
	l := core.MustNew(core.Config[string]{
		Rules: []core.Rule[string]{perClient, next}, Observer: counts.Limiter("jobs"),
	})
	counts.Limiter("jobs").ObserveLimiter(l)
	for range 5 {
		l.Decide(context.Background(), "ann")
	}
	counts.Backend("redis", memory.MustNew(memory.Options{})).Reset(context.Background(), "per-client", "ann")
	return counts.Snapshot()
}

func ExampleSnapshot() {
	s := shot()
	fmt.Println(len(s.Limiters), "limiter,", len(s.Backends), "backend,", s.At.After(s.Since))
	// Output: 1 limiter, 1 backend, true
}

// All metrics, as Prometheus and as OpenTelemetry name them.
func ExampleSnapshot_Metrics() {
	for _, m := range (stats.Snapshot{}).Metrics() {
		fmt.Printf("%s{%s} %s %s\n", m.Name, strings.Join(m.Labels, ","), m.Kind, m.Instrument)
	}
	// Output:
	// weir_requests_total{limiter,verdict} counter weir.requests
	// weir_preflights_total{limiter} counter weir.preflights
	// weir_queue_waiting_requests{limiter} gauge weir.queue.waiting
	// weir_queue_full_total{limiter} counter weir.queue.full
	// weir_queue_left_total{limiter} counter weir.queue.left
	// weir_instances{limiter} gauge weir.instances
	// weir_held_units{limiter} gauge weir.held
	// weir_held_oldest_timestamp_seconds{limiter} timestamp weir.held.age
	// weir_rule_decisions_total{limiter,rule,decision,mode,source} counter weir.rate_limiting.decisions
	// weir_rule_failures_total{limiter,rule,reason} counter weir.rate_limiting.failures
	// weir_rule_binding_total{limiter,rule} counter weir.rate_limiting.binding
	// weir_rule_units_total{limiter,rule} counter weir.rate_limiting.units
	// weir_rule_near_limit_total{limiter,rule} counter weir.rate_limiting.near_limit
	// weir_rule_limit_units{limiter,rule} gauge weir.rate_limiting.limit
	// weir_rule_period_seconds{limiter,rule} gauge weir.rate_limiting.period
	// weir_rule_enforced_ratio{limiter,rule} gauge weir.rate_limiting.enforced
	// weir_rule_mode{limiter,rule,mode} gauge weir.rate_limiting.mode
	// weir_rule_overridden{limiter,rule} gauge weir.rate_limiting.overridden
	// weir_queue_delay_seconds{limiter,rule} histogram weir.queue.delay
	// weir_settlements_total{limiter,rule,result} counter weir.settlements
	// weir_settled_units_total{limiter,rule,kind} counter weir.settlements.units
	// weir_shed_requests_total{shedder,class,verdict} counter weir.shed.requests
	// weir_shed_ahead_total{shedder,class} counter weir.shed.ahead
	// weir_shed_in_flight_requests{shedder,class} gauge weir.shed.in_flight
	// weir_shed_waiting_requests{shedder,class} gauge weir.shed.waiting
	// weir_shed_class_share_ratio{shedder,class} gauge weir.shed.class.share
	// weir_shed_exempt_total{shedder} counter weir.shed.exempt
	// weir_shed_limit_requests{shedder} gauge weir.shed.limit
	// weir_shed_max_limit_requests{shedder} gauge weir.shed.max_limit
	// weir_shed_streams{shedder} gauge weir.shed.streams
	// weir_shed_oldest_seconds{shedder} gauge weir.shed.oldest
	// weir_shed_mode{shedder,mode} gauge weir.shed.mode
	// weir_shed_algorithm_panics_total{shedder} counter weir.shed.algorithm.panics
	// weir_backend_duration_seconds{backend,operation,result} histogram weir.backend.operation.duration
	// weir_backend_errors_total{backend,operation,reason} counter weir.backend.operation.errors
	// weir_breaker_open{breaker} gauge weir.breaker.open
	// weir_breaker_changes_total{breaker,to} counter weir.breaker.changes
	// weir_memory_keys{memory} gauge weir.memory.keys
	// weir_memory_max_keys{memory} gauge weir.memory.max_keys
	// weir_memory_displaced_total{memory} counter weir.memory.displaced
	// weir_lease_held_units{backend} gauge weir.lease.held
	// weir_lease_keys{backend} gauge weir.lease.keys
	// weir_lease_blocks_total{backend,result} counter weir.lease.blocks
	// weir_lease_units_total{backend,kind} counter weir.lease.units
	// weir_policy_loads_total{policy,result} counter weir.policy.loads
	// weir_policy_applied_timestamp_seconds{policy} timestamp weir.policy.age
	// weir_policy_failing{policy} gauge weir.policy.failing
	// weir_policy_info{policy,digest} gauge weir.policy.info
}

// A program that writes metrics in a form of its own, here that of Prometheus.
func ExampleMetric() {
	for _, m := range shot().Metrics() {
		if m.Name != "weir_requests_total" {
			continue
		}
		fmt.Println("# HELP", m.Name, m.Help)
		fmt.Println("# TYPE", m.Name, m.Kind)
		for _, s := range m.Series {
			fmt.Printf("%s{%s=%q,%s=%q} %v\n", m.Name, m.Labels[0], s.Labels[0], m.Labels[1], s.Labels[1], s.Value)
		}
		fmt.Println("OpenTelemetry:", m.Instrument, m.Attributes, m.Unit)
	}
	// Output:
	// # HELP weir_requests_total Requests by verdict. Requests that wait in a queue are allowed.
	// # TYPE weir_requests_total counter
	// weir_requests_total{limiter="jobs",verdict="allowed"} 2
	// weir_requests_total{limiter="jobs",verdict="denied"} 3
	// weir_requests_total{limiter="jobs",verdict="unavailable"} 0
	// weir_requests_total{limiter="jobs",verdict="abandoned"} 0
	// OpenTelemetry: weir.requests [weir.limiter.name weir.verdict] {request}
}

// The series that have counted something.
func ExampleSeries() {
	for _, m := range shot().Metrics() {
		for _, s := range m.Series {
			if m.Kind == "counter" && s.Value > 0 {
				fmt.Println(m.Name, s.Labels, s.Value)
			}
			if m.Kind == "histogram" && s.Histogram.Count() > 0 {
				fmt.Println(m.Name, s.Labels, s.Histogram.Count(), "calls")
			}
		}
	}
	// Output:
	// weir_requests_total [jobs allowed] 2
	// weir_requests_total [jobs denied] 3
	// weir_rule_decisions_total [jobs per-client allowed enforce primary] 2
	// weir_rule_decisions_total [jobs per-client denied enforce primary] 3
	// weir_rule_decisions_total [jobs tomorrow allowed shadow primary] 1
	// weir_rule_decisions_total [jobs tomorrow denied shadow primary] 4
	// weir_rule_binding_total [jobs per-client] 3
	// weir_rule_units_total [jobs per-client] 2
	// weir_rule_units_total [jobs tomorrow] 1
	// weir_rule_near_limit_total [jobs per-client] 1
	// weir_rule_near_limit_total [jobs tomorrow] 1
	// weir_backend_duration_seconds [redis reset success] 1 calls
}

func ExampleLimiterSnapshot() {
	l := shot().Limiters[0]
	fmt.Println(l.Name, l.Requests.Denied, l.Held, l.Preflights, l.QueueLeft)
	// Output: jobs 3 0 0 0
}

func ExampleRequests() {
	r := stats.Requests{Allowed: 97, Denied: 3}
	fmt.Printf("%.0f%% denied\n", 100*float64(r.Denied)/float64(r.Total()))
	// Output: 3% denied
}

func ExampleRequests_Total() {
	fmt.Println(shot().Limiters[0].Requests.Total())
	// Output: 5
}

func ExampleRuleSnapshot() {
	for _, rule := range shot().Limiters[0].Rules {
		fmt.Println(rule.Name, rule.Mode, rule.Units, "units,", rule.Binding, "denied,", rule.NearLimit,
			"near the limit")
	}
	// Output:
	// per-client enforce 2 units, 3 denied, 1 near the limit
	// tomorrow shadow 1 units, 0 denied, 1 near the limit
}

// What the shadow of tomorrow's limit would have denied.
func ExampleRuleSnapshot_Count() {
	tomorrow := shot().Limiters[0].Rules[1]
	fmt.Println(tomorrow.Count(func(d stats.DecisionCount) bool { return d.Mode == core.Shadow && !d.Allowed }))
	// Output: 4
}

func ExampleDecisionCount() {
	for _, d := range shot().Limiters[0].Rules[0].Decisions {
		if d.Count > 0 {
			fmt.Println(d.Mode, d.Source, d.Allowed, d.Count)
		}
	}
	// Output:
	// enforce primary true 2
	// enforce primary false 3
}

func ExampleTopKeys() {
	top := shot().Limiters[0].Top
	fmt.Println(top.Denials, "denials, spread over many keys:", top.Spread)
	// Output: 7 denials, spread over many keys: false
}

func ExampleTopKey() {
	for _, key := range shot().Limiters[0].Top.Keys {
		fmt.Printf("%s %s %s: %d to %d\n", key.Rule, key.Mode, key.Key, key.Count-key.Error, key.Count)
	}
	// Output:
	// tomorrow shadow ann: 4 to 4
	// per-client enforce ann: 3 to 3
}

func ExampleDenial() {
	d := shot().Limiters[0].Denials[0]
	fmt.Println(d.Rule, d.Key, d.Source, d.Limit, d.Remaining)
	// Output: per-client ann primary fixed-window 2/1d 0
}

func ExampleBackendSnapshot() {
	for _, op := range shot().Backends[0].Operations {
		fmt.Print(op.Name, " ", op.Succeeded.Count(), "; ")
	}
	// Output: take 0; peek 0; settle 0; reset 1; count 0;
}

func ExampleHistogram() {
	h := shot().Backends[0].Operations[3].Succeeded
	fmt.Println(len(h.Counts)-len(h.Bounds), h.Bounds[0], h.Bounds[len(h.Bounds)-1])
	// Output: 1 250µs 1m0s
}
