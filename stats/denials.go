package stats

import (
	"hash/maphash"
	"log/slog"
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

// quietAfter is the time without denials after which a rule counts as no longer denying.
const quietAfter = time.Minute

// ruleLog is the logging state of one rule. The zero ruleLog is that of a rule that is not denying.
type ruleLog struct {
	denying     bool
	since, last time.Time // first and latest denial of this episode
	before      int64     // denials counted before this episode
	logged      int64     // denials counted at the latest line
	silentUntil time.Time // do not log before this time
}

// logLocked logs a denial if it is the first of an episode, or if the rule may log again.
func (d *denials) logLocked(r *rule, now time.Time, key string, retryAfter time.Duration) {
	log := &r.log
	log.last = now
	switch {
	case !log.denying:
		n := r.denied()
		*log = ruleLog{denying: true, since: now, last: now, before: n - 1, logged: n}
		d.lines.add(line{
			level: slog.LevelWarn, message: "weir: a rule denies",
			limiter: d.counters.name, rule: r.name, key: key, retryAfter: retryAfter,
		})
		if d.quiet == nil {
			d.quiet = time.AfterFunc(quietAfter, d.lookForQuiet)
		}
	case now.Before(log.silentUntil):
	default:
		if wait := d.lines.wait(d.counters.name, r.name); wait > 0 {
			log.silentUntil = now.Add(wait)
			return
		}
		n := r.denied()
		d.lines.add(line{
			level: slog.LevelInfo, message: "weir: denied",
			limiter: d.counters.name, rule: r.name, key: key, retryAfter: retryAfter,
			suppressed: max(0, n-log.logged-1),
		})
		log.logged = n
	}
}

// lookForQuiet logs which rules stopped denying, and fires again while other rules deny.
func (d *denials) lookForQuiet() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// under the lock, so that every rule that is denying is in the list
	rules := d.counters.allRules()
	now, next := time.Now(), time.Duration(0)
	for _, r := range rules {
		log := &r.log
		if !log.denying {
			continue
		}
		if left := quietAfter - now.Sub(log.last); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		log.denying = false
		n := r.denied()
		d.lines.add(line{
			level: slog.LevelInfo, message: "weir: a rule denies no more",
			limiter: d.counters.name, rule: r.name, suppressed: max(0, n-log.logged),
			over: true, denied: n - log.before, lasted: log.last.Sub(log.since),
		})
	}
	if d.quiet = nil; next > 0 {
		d.quiet = time.AfterFunc(next, d.lookForQuiet)
	}
}
