package simulate

import (
	"container/heap"
	"context"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// reading is one of two interpretations of stamps in whole seconds.
type reading uint8

const (
	early  reading = iota // all requests arrive at the start of their second
	spread                // requests are spread evenly over their second
	readings
)

// variant is the set of rules of a replay: a whole policy, or one of its rules alone with another
// limit.
type variant struct {
	side  int // index in run.sides
	alone int // index of the only rule, or −1 for all
	limit func(limits.Limit) limits.Limit
	label float64 // distinguishes variants of one rule

	judged bool // compare its decisions with an exact log
}

// replay decides all requests by one limiter, in one reading. It is used by one goroutine.
type replay struct {
	variant
	reading reading
	first   int // number of its first rule
	limiter *core.Limiter[*item]
	clock   int64
	ends    ends
	rules   []ruleCount
	hit     chunked[uint32] // denials by client
	clients int64           // clients with denials
	denied  int64
	series  series
	// requests that are allowed, and denied by a shadow
	shadowed       int64
	shadowedSeries series
	delayed        int64
	failed         int64
	failure        error
	judge          *judge  // nil: decisions are not compared
	logged         *logged // nil: decisions are not compared with the log
}

// ruleCount holds the counts of one rule.
type ruleCount struct {
	denied, shadowed int64
	byKey            chunked[uint32] // denials, including those of shadows
	keys             int64           // keys with denials
	longest          time.Duration
	never            int64 // denials that no wait ends
	first            int64 // time of the first denial
	binding          int64 // denied requests whose longest wait is from this rule
}

// newReplay returns a replay of a variant of rules. first is the number of the first rule.
func newReplay(
	v variant, r reading, rules []core.Rule[*request], first, maxKeys int,
) (*replay, error) {
	p := &replay{variant: v, reading: r, first: first}
	wrapped := make([]core.Rule[*item], 0, len(rules))
	for i := range rules {
		if v.alone < 0 || v.alone == i {
			wrapped = append(wrapped, wrap(&rules[i], first+i, v.limit))
		}
		if v.alone == i { // enforce the rule even if it is a shadow
			wrapped[0].Mode = core.Enforce
		}
	}
	if v.alone >= 0 {
		p.first += v.alone
	}
	if v.judged {
		p.judge = &judge{limit: wrapped[0].Limit}
	}
	p.rules = make([]ruleCount, len(wrapped))
	if len(wrapped) == 0 {
		return p, nil
	}
	store := memory.MustNew(memory.Options{MaxKeys: maxKeys, MaxLogEntries: maxLogEntries,
		Clock: func() time.Time { return time.UnixMicro(p.clock) }})
	limiter, err := core.New(core.Config[*item]{Rules: wrapped, Backend: store})
	if err != nil {
		return nil, err
	}
	p.limiter = limiter
	return p, nil
}

// maxLogEntries is the number of entries in sliding logs, which take up to 1 GiB. Memory is
// allocated as needed.
const maxLogEntries = 1 << 26

// wrap returns a rule for items, whose charges are already known.
func wrap(
	rule *core.Rule[*request], number int, limit func(limits.Limit) limits.Limit,
) core.Rule[*item] {
	if limit == nil {
		limit = func(l limits.Limit) limits.Limit { return l }
	}
	w := core.Rule[*item]{
		Name: rule.Name, Scope: rule.Scope, Unit: rule.Unit, OnFailure: rule.OnFailure,
		Mode:      rule.Mode,
		FinalCost: rule.FinalCost, Local: rule.Local, DenyAs503: rule.DenyAs503,
		Key: func(it *item) (string, error) {
			c := it.charge(number)
			if c == nil {
				return "", core.ErrDoesNotApply
			}
			return c.key, c.err
		},
	}
	if rule.Value != nil {
		w.Value = func(it *item) (string, error) { return it.charge(number).text, nil }
	}
	if rule.Cost != nil {
		w.Cost = func(it *item) int64 { return it.charge(number).cost }
	}
	if !varies(rule) {
		w.Limit = limit(rule.Limit)
		return w
	}
	w.LimitFor = func(it *item, _ string) (limits.Limit, error) {
		return limit(it.charge(number).limit), nil
	}
	return w
}

// varies reports whether the limit of a rule depends on the request.
func varies[R any](rule *core.Rule[R]) bool { return rule.LimitFor != nil }

// decide decides one request and reports whether it is allowed.
func (p *replay) decide(it *item) bool {
	if p.limiter == nil {
		return true
	}
	at := it.at
	if p.reading == spread {
		at = it.spread
	}
	p.endUntil(at)
	p.clock = at
	var o core.Outcome
	if p.limiter.DecideInto(context.Background(), it, &o) {
		p.begin(it, o, at)
	}
	allowed := o.Allowed()
	if c := it.charge(p.first); p.judge != nil && c != nil && c.err == nil {
		p.judge.see(c, at, allowed)
	}
	if p.logged != nil {
		p.logged.see(it, at, o.Len() > 0, o.Verdict() == core.Denied)
	}
	if allowed && p.plain(&o) {
		return true
	}
	p.count(it, &o, at)
	return allowed
}

// plain reports whether every rule allowed the request without delay, which needs no counting.
func (p *replay) plain(o *core.Outcome) bool {
	if o.Err() != nil {
		return false
	}
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed || d.Delay > 0 {
			return false
		}
	}
	return true
}

func (p *replay) count(it *item, o *core.Outcome, at int64) {
	if err := o.Err(); err != nil {
		p.failed++
		if p.failure == nil {
			p.failure = err
		}
	}
	if o.Delay() > 0 {
		p.delayed++
	}
	shadowed := false
	for i := range o.Len() {
		d := o.At(i)
		if d.Allowed || !d.Source.Counted() {
			continue
		}
		shadowed = true
		r := &p.rules[d.Index()]
		if r.denied+r.shadowed == 0 {
			r.first = at
		}
		if d.Mode() == core.Shadow {
			r.shadowed++
		} else {
			r.denied++
		}
		if d.RetryAfter == limits.Never {
			r.never++
		} else {
			r.longest = max(r.longest, d.RetryAfter)
		}
		if n := r.byKey.at(it.charge(p.first + d.Index()).id); *n == 0 {
			r.keys++
			*n = 1
		} else {
			*n++
		}
	}
	if o.Verdict() != core.Denied {
		if shadowed {
			p.shadowed++
			p.shadowedSeries.add(at, 1)
		}
		return
	}
	if b := o.BindingRule(); b >= 0 {
		p.rules[o.At(b).Index()].binding++
	}
	p.denied++
	p.series.add(at, 1)
	n := p.hit.at(it.client)
	if *n == 0 {
		p.clients++
	}
	*n++
}

// begin records when a request ends.
func (p *replay) begin(it *item, o core.Outcome, at int64) {
	result := core.Result{Status: int(it.status), Bytes: it.bytes}
	if it.lasted <= 0 {
		o.End(result)
		return
	}
	heap.Push(&p.ends, end{at + it.lasted, &o, result})
}

// endUntil ends the requests that end before a time.
func (p *replay) endUntil(at int64) {
	for len(p.ends) > 0 && p.ends[0].at <= at {
		e := heap.Pop(&p.ends).(end)
		p.clock = e.at
		e.outcome.End(e.result)
	}
}
