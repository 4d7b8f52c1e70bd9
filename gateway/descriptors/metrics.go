package descriptors

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/stats"
)

// What the hits of a rule come to. A near one is allowed and leaves a fifth of the limit or less. A
// shadow is over, and allowed all the same.
const (
	within = iota
	near
	over
	shadow
	results
)

var resultNames = [results]string{"within", "near", "over", "shadow"}

// counters count the hits of a rule.
type counters [results]atomic.Int64

// domainCounters count the requests of a domain.
type domainCounters struct {
	ok, over    [Open + 1]atomic.Int64 // by who counted
	unavailable atomic.Int64
	left        atomic.Int64 // callers that left before the decision
	invalid     atomic.Int64
}

// domainCounts are the counters of a domain and of its rules in force.
type domainCounts struct {
	*domainCounters
	name  string
	rules map[*rule]*counters
}

func (d *domainCounts) fail(err error) {
	switch _, invalid := errors.AsType[Invalid](err); {
	case invalid:
		d.invalid.Add(1)
	case errors.Is(err, ErrUnavailable):
		d.unavailable.Add(1)
	default:
		d.left.Add(1)
	}
}

// maxCounted is how many rules of all domains are counted apart.
const maxCounted = 10_000

// other is the name under which all rules and values beyond are counted.
const other = "(other)"

type place struct{ domain, rule string }

// registry has all counters. They outlast the configuration that they count for.
type registry struct {
	maxDetailed      int // 0: the default
	invalid, unknown atomic.Int64

	mu       sync.RWMutex
	domains  map[string]*domainCounters
	rules    map[place]*counters
	detailed int // how many of rules have values of requests
}

// of returns the counters of the domains of config.
func (g *registry) of(config *Config) map[string]domainCounts {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.domains == nil {
		g.domains, g.rules = make(map[string]*domainCounters), make(map[place]*counters)
	}
	all := make(map[string]domainCounts)
	for name, d := range config.domains {
		if g.domains[name] == nil {
			g.domains[name] = new(domainCounters)
		}
		counts := domainCounts{g.domains[name], name, make(map[*rule]*counters)}
		d.each(func(r *rule) {
			if !r.detailed {
				counts.rules[r] = g.ruleLocked(place{name, r.path}, len(g.rules)-g.detailed < maxCounted)
			}
		})
		for unit := range d.overrides {
			r := &d.overrides[unit]
			counts.rules[r] = g.ruleLocked(place{name, r.path}, true)
		}
		all[name] = counts
	}
	return all
}

// ruleLocked returns the counters of a rule, or those of all others if there may be no more.
func (g *registry) ruleLocked(p place, more bool) *counters {
	if g.rules[p] == nil && !more {
		p.rule = other
	}
	if g.rules[p] == nil {
		g.rules[p] = new(counters)
	}
	return g.rules[p]
}

// countersOf returns the counters of a rule that tells the values of requests apart: those of
// all others once there may be no more.
func (g *registry) countersOf(p place) *counters {
	g.mu.RLock()
	c := g.rules[p]
	g.mu.RUnlock()
	if c != nil {
		return c
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.rules)
	c = g.ruleLocked(p, g.detailed < cmp.Or(g.maxDetailed, 1000))
	g.detailed += len(g.rules) - before
	return c
}

// count counts an answer.
func (g *registry) count(counts *domainCounts, d *decision, r *Request, a *Answer) {
	if a.Over {
		counts.over[a.Source].Add(1)
	} else {
		counts.ok[a.Source].Add(1)
	}
	if a.Source == Open {
		return
	}
	for i := range d.planned {
		p, status := &d.planned[i], &a.Statuses[i]
		if p.rule == nil || p.refund {
			continue
		}
		c := counts.rules[p.rule]
		if c == nil { // detailed
			c = g.countersOf(place{counts.name, pathOf(&r.Descriptors[i])})
		}
		result := within
		switch {
		case p.unlimited:
		case status.Shadowed:
			result = shadow
		case status.Over:
			result = over
		case status.Limit == nil: // it was not asked
		case status.Remaining <= status.Limit.RequestsPerUnit/5:
			result = near
		}
		if p.isWeighted {
			c[result].Add(p.hits)
		} else {
			c[result].Add(max(1, p.hits))
		}
	}
}

// metrics returns the counters of g.
func (g *registry) metrics() []stats.Metric {
	requests := stats.Metric{
		Name: "weir_descriptor_requests_total", Labels: []string{"domain", "verdict", "source"},
		Instrument: "weir.descriptor.requests",
		Attributes: []string{"weir.descriptor.domain", "weir.verdict", "weir.decision.source"},
		Kind:       "counter", Unit: "{request}",
		Help: "Requests of a domain of descriptors, by verdict and by who counted them.",
	}
	hits := stats.Metric{
		Name: "weir_descriptor_hits_total", Labels: []string{"domain", "rule", "result"},
		Instrument: "weir.descriptor.hits",
		Attributes: []string{"weir.descriptor.domain", "weir.policy_rule.name", "weir.descriptor.result"},
		Kind:       "counter", Unit: "{unit}",
		Help: "Hits of a rule of descriptors: within the limit, near it (a fifth or less is left), " +
			"over it, or over it as a shadow. A check is one hit. Under a budget they are its units.",
	}
	refused := stats.Metric{
		Name: "weir_descriptor_refused_total", Labels: []string{"reason"},
		Instrument: "weir.descriptor.refused", Attributes: []string{"error.type"},
		Kind: "counter", Unit: "{request}",
		Help: "Requests that break the protocol, as a whole or in a descriptor, which is then not counted, " +
			"and requests of a domain that no file has, which are allowed.",
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for name, d := range g.domains {
		for source := range d.ok {
			add(&requests, d.ok[source].Load(), name, "allowed", Source(source).String())
			add(&requests, d.over[source].Load(), name, "denied", Source(source).String())
		}
		add(&requests, d.unavailable.Load(), name, "unavailable", NotCounted.String())
		add(&requests, d.left.Load(), name, "abandoned", NotCounted.String())
		add(&requests, d.invalid.Load(), name, "invalid", NotCounted.String())
	}
	for p, c := range g.rules {
		for result := range c {
			add(&hits, c[result].Load(), p.domain, p.rule, resultNames[result])
		}
	}
	add(&refused, g.invalid.Load(), "invalid")
	add(&refused, g.unknown.Load(), "unknown domain")
	all := []stats.Metric{requests, hits, refused}
	for _, m := range all {
		slices.SortFunc(m.Series, func(a, b stats.Series) int { return slices.Compare(a.Labels, b.Labels) })
	}
	return all
}

func add(m *stats.Metric, value int64, labels ...string) {
	m.Series = append(m.Series, stats.Series{Labels: labels, Value: float64(value)})
}

// pathOf returns the path of a rule with the values of a request, for metrics that tell them apart.
func pathOf(d *Descriptor) string {
	var b strings.Builder
	for i, e := range d.Entries {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(e.Key)
		if e.Value != "" {
			b.WriteString("_" + e.Value)
		}
	}
	const longest = 200 // bytes of a label
	return strings.ToValidUTF8(b.String()[:min(longest, b.Len())], "�")
}
