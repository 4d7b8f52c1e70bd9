package stats

import (
	"log/slog"
	"time"

	"github.com/weir-go/weir/limits"
)

// quietAfter is the time without denials after which a rule counts as no longer denying.
const quietAfter = time.Minute

// linesPerMinute bounds the lines of one rule between the first denial and the last.
var linesPerMinute = limits.SlidingWindow(limits.PerMinute(10))

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

// denied returns the number of requests that the rule denied while it was enforced.
func (r *rule) denied() (denials int64) {
	for source := range limits.SourceClosed {
		if source == limits.SourceLease {
			continue // never denies
		}
		for _, k := range [...]kind{denied, deniedMost, aloneDenied} {
			for i := range r.stripes {
				denials += r.stripes[i].cells[cell(source, false, k)].Load()
			}
		}
	}
	return denials
}

type line struct {
	level         slog.Level
	message       string
	limiter, rule string
	key           string
	retryAfter    time.Duration
	suppressed    int64 // denials since the previous line that were not logged

	over   bool // the rule stopped denying
	denied int64
	lasted time.Duration

	ofShedder      bool // the fields below apply, in place of limiter and rule
	shedder, class string
	inFlightLimit  int
	shed           int64 // since the previous line; in total if over
}
