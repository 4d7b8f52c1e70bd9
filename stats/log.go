package stats

import (
	"log/slog"
	"time"

	"github.com/weir-go/weir/limits"
)

// quietAfter is how long a rule has denied nothing when its denials count as over.
const quietAfter = time.Minute

// linesPerMinute bounds the lines of one rule between the first denial and the last.
var linesPerMinute = limits.SlidingWindow(limits.PerMinute(10))

// ruleLog is what the log lines of one rule need. The zero ruleLog does not deny.
type ruleLog struct {
	denying     bool
	since, last time.Time // of these denials
	before      int64     // denials that were counted before these
	logged      int64     // denials that were counted at the latest line
	silentUntil time.Time // no line before then
}

// logLocked logs one denial, if it is the first, or no line was written for a while.
func (d *denials) logLocked(r *rule, now time.Time, key string, retryAfter time.Duration) {
	log := &r.log
	log.last = now
	switch {
	case !log.denying:
		n := r.denied()
		*log = ruleLog{denying: true, since: now, last: now, before: n - 1, logged: n}
		d.lines.add(line{
			level: slog.LevelWarn, message: "weir: a rule denies",
			limiter: d.of.name, rule: r.name, key: key, retryAfter: retryAfter,
		})
		if d.quiet == nil {
			d.quiet = time.AfterFunc(quietAfter, d.lookForQuiet)
		}
	case now.Before(log.silentUntil):
	default:
		if wait := d.lines.wait(d.of.name, r.name); wait > 0 {
			log.silentUntil = now.Add(wait)
			return
		}
		n := r.denied()
		d.lines.add(line{
			level: slog.LevelInfo, message: "weir: denied",
			limiter: d.of.name, rule: r.name, key: key, retryAfter: retryAfter, suppressed: max(0, n-log.logged-1),
		})
		log.logged = n
	}
}

// lookForQuiet logs which rules have stopped to deny. It looks again while others go on.
func (d *denials) lookForQuiet() {
	d.mu.Lock()
	defer d.mu.Unlock()
	rules := d.of.allRules() // with the lock: no rule begins to deny without being one of them
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
			limiter: d.of.name, rule: r.name, suppressed: max(0, n-log.logged),
			over: true, denied: n - log.before, lasted: log.last.Sub(log.since),
		})
	}
	if d.quiet = nil; next > 0 {
		d.quiet = time.AfterFunc(next, d.lookForQuiet)
	}
}

// denied returns how many requests the rule, enforced, has denied.
func (r *rule) denied() (denials int64) {
	for source := range limits.SourceClosed {
		if source == limits.SourceLease {
			continue // denies nothing
		}
		for _, k := range [...]kind{denied, deniedMost, aloneDenied} {
			for i := range r.stripes {
				denials += r.stripes[i].cells[cell(source, false, k)].Load()
			}
		}
	}
	return denials
}

// line is one line of the log.
type line struct {
	level         slog.Level
	message       string
	limiter, rule string
	key           string
	retryAfter    time.Duration
	suppressed    int64 // denials since the line before that have none

	over   bool // the rule denies no more
	denied int64
	lasted time.Duration

	ofShedder      bool // what follows, in place of limiter and rule
	shedder, class string
	inFlightLimit  int
	shed           int64 // since the line before; all, if it is over
}
