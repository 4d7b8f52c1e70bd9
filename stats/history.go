package stats

import (
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/weir-go/weir/limits"
)

const (
	sampleEvery = 10 * time.Second
	maxSamples  = 60
)

// history has the samples of one rule.
type history struct {
	mu      sync.Mutex
	last    Sample // the sums of when the latest sample was made
	samples []Sample
}

// KeepHistory has s sample all rules every 10 s from now on, as long as s is in use, so that
// snapshots have [RuleSnapshot].History. The operator's page calls it. A second call does
// nothing.
func (s *Stats) KeepHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeps {
		return
	}
	s.keeps = true
	now := time.Now()
	for _, l := range s.limiters {
		l.begin(now)
	}
	stats := weak.Make(s) // the timer must not keep a Stats that nobody uses
	var timer *time.Timer
	timer = time.AfterFunc(sampleEvery, func() {
		if s := stats.Value(); s != nil {
			s.sample(time.Now())
			timer.Reset(sampleEvery)
		}
	})
}

func (s *Stats) sample(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.limiters {
		for _, r := range l.allRules() {
			r.sample(now)
		}
	}
}

// begin notes how much the rules of l have decided before there are samples.
func (l *Limiter) begin(now time.Time) {
	for _, r := range l.allRules() {
		r.history.mu.Lock()
		r.history.last = r.sums(now)
		r.history.mu.Unlock()
	}
}

// sums returns how much r has decided until now.
func (r *rule) sums(now time.Time) Sample {
	sums := Sample{At: now}
	r.each(func(_ limits.Source, shadow bool, k kind, n int64) {
		switch {
		case !k.denies():
			sums.Allowed += n
		case shadow:
			sums.WouldDeny += n
		default:
			sums.Denied += n
		}
	})
	return sums
}

func (r *rule) sample(now time.Time) {
	h := &r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	sums, last := r.sums(now), h.last
	h.last = sums
	if len(h.samples) == maxSamples {
		h.samples = slices.Delete(h.samples, 0, 1)
	}
	h.samples = append(h.samples, Sample{now, sums.Allowed - last.Allowed, sums.Denied - last.Denied, sums.WouldDeny - last.WouldDeny})
}

func (h *history) snapshot() []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.samples)
}
