package stats

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// denials records the keys that are denied most, and the latest denials. It allocates the lists at
// the first denial.
type denials struct {
	counters *Counters
	lines    *lines
	skipped  atomic.Int64

	mu     sync.Mutex
	seed   maphash.Seed
	top    *topKeys
	recent *recentDenials
	quiet  *time.Timer // fires to find rules that stopped denying; nil: no rule is denying
}

const (
	maxRecent  = 256
	recentLast = time.Hour
)

type recentDenials struct {
	n    uint64 // recorded so far
	ring [maxRecent]recentDenial
}

type recentDenial struct {
	at         time.Time
	rule       uint16
	source     limits.Source
	key        shortKey
	limit      limits.Limit
	cost       int64
	remaining  int64
	retryAfter time.Duration
}

// note records the denials of o; binding is the index of the binding decision. It skips o if
// another goroutine holds the lock: under a flood, a sample of the denials is enough.
func (d *denials) note(o *core.Outcome, binding int) {
	if !d.mu.TryLock() {
		d.skipped.Add(1)
		return
	}
	defer d.mu.Unlock()
	now := time.Now()
	if d.top == nil {
		d.seed = maphash.MakeSeed()
		d.top, d.recent = &topKeys{since: now}, new(recentDenials)
	}
	d.top.turn(now)
	for i := range o.Len() {
		p := o.At(i)
		shadow := p.Mode() == core.Shadow
		if p.Allowed || !p.Source.Counted() || !shadow && i != binding {
			continue
		}
		r := d.counters.rule(p)
		hash := maphash.String(d.seed, p.Key) + uint64(r.number)*0x9e3779b97f4a7c15
		if shadow { // a rule is a shadow only part of the time
			hash = ^hash
		}
		d.top.generations[d.top.current].add(hash, r.number, shadow, p.Key)
		if !shadow {
			d.recent.add(now, r.number, p)
			d.logLocked(r, now, p.Key, p.RetryAfter)
		}
	}
}

func (r *recentDenials) add(now time.Time, rule uint16, d *core.RuleDecision) {
	to := &r.ring[r.n%maxRecent]
	r.n++
	to.at, to.rule, to.source, to.limit, to.cost = now, rule, d.Source, d.Limit(), d.Cost
	to.remaining, to.retryAfter = d.Remaining, d.RetryAfter
	to.key.set(d.Key)
}

func (d *denials) snapshot(shot *LimiterSnapshot, now time.Time) {
	shot.Skipped = d.skipped.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	shot.Top.Since = now
	if d.top == nil {
		return
	}
	rules := d.counters.allRules()
	shot.Top = d.top.snapshot(now, rules)
	for i := range min(d.recent.n, maxRecent) {
		from := &d.recent.ring[(d.recent.n-1-i)%maxRecent]
		if now.Sub(from.at) > recentLast {
			break
		}
		denial := Denial{
			At: from.at, Rule: rules[from.rule].name, Source: from.source, Limit: from.limit,
			Cost:      from.cost,
			Remaining: from.remaining, RetryAfter: from.retryAfter,
		}
		denial.Key, denial.Cut = from.key.text()
		shot.Denials = append(shot.Denials, denial)
	}
}
