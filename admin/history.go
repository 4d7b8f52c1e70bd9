package admin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/stats"
)

const (
	sampleEvery  = 5 * time.Second
	historyLasts = 10 * time.Minute
	maxMarks     = 100
)

// history holds the decisions of the last ten minutes and the changes in that time. It samples the
// counters of stats, so it costs nothing per request.
type history struct {
	stats    *stats.Stats
	policy   Policy
	limiters *limiters
	logger   *slog.Logger

	mu      sync.Mutex
	times   []time.Time      // of the samples, oldest first
	recent  []stats.Snapshot // the latest samples without keys, oldest first
	samples map[ruleKey]*[historyKinds][]int64
	marks   []mark // oldest first
	before  state
}

// ruleKey names a rule. The zero ruleKey is all requests.
type ruleKey struct{ limiter, rule string }

// Kinds of counts in a sample, for all requests and for each rule. The values are running totals.
const (
	historyAllowed = iota
	historyDenied
	historyUnavailable
	historyShed
	historyAdmitted // of shedders
	historyKinds

	historyWouldDeny = historyUnavailable // of rules
)

// mark is a change at a time.
type mark struct {
	at   time.Time
	text string
}

// state is compared with the previous state to find changes.
type state struct {
	known     bool
	applied   time.Time // when the policy was applied
	overrides map[ruleKey]core.Override
	keys      map[ruleKey]map[string]core.Override // overrides of keys
	opened    map[string]int64                     // how often each breaker has opened
	isBroken  map[string]bool                      // whether each breaker is open or half open
}

// newHistory samples now, and every 5 s as long as the history is referenced.
func newHistory(
	of *stats.Stats, policy Policy, limiters *limiters, logger *slog.Logger,
) *history {
	h := &history{
		stats: of, policy: policy, limiters: limiters, logger: logger,
		samples: make(map[ruleKey]*[historyKinds][]int64),
	}
	h.sample()
	sampleLater(weak.Make(h))
	return h
}

// sampleLater holds only a weak reference, so the history of a page that is no longer served is
// collected.
func sampleLater(history weak.Pointer[history]) {
	time.AfterFunc(sampleEvery, func() {
		if h := history.Value(); h != nil {
			h.sample()
			sampleLater(history)
		}
	})
}

// look adds marks for changes made just now.
func (h *history) look() {
	defer h.noPanic()
	shot := h.stats.Snapshot()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lookLocked(&shot)
}

// noPanic recovers from a panic of a limiter, policy or breaker of the program.
func (h *history) noPanic() {
	if v := recover(); v != nil {
		logPanic(context.Background(), h.logger, "weir: admin: the history lacks a sample", v)
	}
}

// sample adds a sample.
func (h *history) sample() {
	defer h.noPanic()
	shot := h.stats.Snapshot()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lookLocked(&shot)
	h.times = append(h.times, shot.At)
	h.addLocked(ruleKey{}, allRequests(&shot))
	for i := range shot.Limiters {
		l := &shot.Limiters[i]
		for j := range l.Rules {
			allowed, denied, wouldDeny := decided(&l.Rules[j])
			h.addLocked(ruleKey{l.Name, l.Rules[j].Name}, [historyKinds]int64{
				historyAllowed: allowed, historyDenied: denied, historyWouldDeny: wouldDeny,
			})
		}
	}
	h.forgetLocked(shot.At)
	for i := range shot.Limiters {
		shot.Limiters[i].Top, shot.Limiters[i].Denials = stats.TopKeys{}, nil
	}
	const enough = 2 // the older one is at least 5 s old
	h.recent = append(h.recent[max(0, len(h.recent)-enough+1):], shot)
}

// earlier returns the counters of at least 5 s ago, or the first ones, so that a page that was just
// opened has rates. They lack keys. It returns nil if there is no sample.
func (h *history) earlier(now time.Time) (shot *stats.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.recent {
		if s := h.recent[i]; shot == nil || now.Sub(s.At) >= sampleEvery {
			shot = &s
		}
	}
	return shot
}

// allRequests returns the sums over all limiters and shedders.
func allRequests(shot *stats.Snapshot) (sums [historyKinds]int64) {
	for i := range shot.Limiters {
		r := &shot.Limiters[i].Requests
		sums[historyAllowed] += r.Allowed
		sums[historyDenied] += r.Denied
		sums[historyUnavailable] += r.Unavailable
	}
	for i := range shot.Shedders {
		for _, c := range shot.Shedders[i].Classes {
			sums[historyShed] += c.Shed
			sums[historyAdmitted] += c.Admitted
		}
	}
	return sums
}

// addLocked appends the sums of the latest sample. A new key gets zeros for earlier samples.
func (h *history) addLocked(key ruleKey, sums [historyKinds]int64) {
	of := h.samples[key]
	if of == nil {
		of = new([historyKinds][]int64)
		for kind := range of {
			of[kind] = make([]int64, len(h.times)-1, len(h.times))
		}
		h.samples[key] = of
	}
	for kind := range of {
		of[kind] = append(of[kind], sums[kind])
	}
}

// forgetLocked removes what is too old to be shown. It keeps one sample before, as the start of the
// first interval.
func (h *history) forgetLocked(now time.Time) {
	old := 0
	for old+1 < len(h.times) && now.Sub(h.times[old]) > historyLasts {
		old++
	}
	h.times = slices.Delete(h.times, 0, old)
	for _, of := range h.samples {
		for kind := range of {
			of[kind] = slices.Delete(of[kind], 0, old)
		}
	}
	h.marks = slices.DeleteFunc(h.marks, func(m mark) bool { return now.Sub(m.at) > historyLasts })
}

// lookLocked adds a mark for each change since the previous call.
func (h *history) lookLocked(shot *stats.Snapshot) {
	now := shot.At
	next := state{
		known: true, overrides: make(map[ruleKey]core.Override), keys: h.keyOverrides(),
		opened: make(map[string]int64), isBroken: make(map[string]bool),
	}
	var marks []mark
	add := func(at time.Time, text string) {
		// the change is new; its time is not plausible
		if age := now.Sub(at); age < 0 || age > 2*sampleEvery {
			at = now
		}
		marks = append(marks, mark{at, text})
	}
	if policy := h.policy; policy != nil {
		next.applied = policy.Applied()
		if !next.applied.Equal(h.before.applied) {
			add(next.applied, "policy "+policy.Source()+": applied"+summary(policy.Differences()))
		}
	}
	for _, b := range shot.Breakers {
		next.opened[b.Name] = b.Opened
		next.isBroken[b.Name] = b.Open || b.State == "half-open"
		was, is := h.before.isBroken[b.Name], next.isBroken[b.Name]
		switch {
		case is && !was:
			add(b.Since, "breaker "+b.Name+": opened")
		case was && !is:
			add(b.Since, "breaker "+b.Name+": closed")
		case !is && b.Opened > h.before.opened[b.Name]:
			add(now, "breaker "+b.Name+": opened, and closed again")
		}
	}
	for i := range shot.Limiters {
		l := &shot.Limiters[i]
		for j := range l.Rules {
			r := &l.Rules[j]
			key := ruleKey{l.Name, r.Name}
			was, is := h.before.overrides[key], r.Override
			if !is.Until.IsZero() {
				next.overrides[key] = is
			}
			if !r.InForce || overrideText(&was) == overrideText(&is) && was.Until.Equal(is.Until) {
				continue
			}
			add(now, "rule "+h.nameOf(key)+": "+overrideText(&is)+because(is.Why))
			if is.Until.IsZero() {
				h.logEnd(key, "of a rule", &was, now)
			}
		}
	}
	for rule, keys := range h.before.keys {
		for key, was := range keys {
			if is := next.keys[rule][key]; is.Until.IsZero() {
				add(now, "rule "+h.nameOf(rule)+", one key: as given")
				h.logEnd(rule, "of a key", &was, now)
			}
		}
	}
	for rule, keys := range next.keys {
		for key, is := range keys {
			if was := h.before.keys[rule][key]; was.Limit != is.Limit || !was.Until.Equal(is.Until) {
				add(now, "rule "+h.nameOf(rule)+", one key: "+overrideText(&is)+because(is.Why))
			}
		}
	}
	if h.before.known { // otherwise everything was so from the start
		slices.SortStableFunc(marks, func(a, b mark) int { return a.at.Compare(b.at) })
		h.marks = append(h.marks, marks...)
		h.marks = slices.Delete(h.marks, 0, max(0, len(h.marks)-maxMarks))
	}
	h.before = next
}

// keyOverrides returns the overrides of keys, by rule and key.
func (h *history) keyOverrides() map[ruleKey]map[string]core.Override {
	all := make(map[ruleKey]map[string]core.Override)
	for name, limiter := range h.limiters.byName {
		keys, ok := limiter.(KeyOverrider)
		if !ok {
			continue
		}
		for _, rule := range limiter.State().Rules {
			if some := keys.KeyOverrides(rule.Name); len(some) > 0 {
				all[ruleKey{name, rule.Name}] = some
			}
		}
	}
	return all
}

// logEnd logs that an override has ended by itself. The changes of people and programs are logged when
// they are made.
func (h *history) logEnd(key ruleKey, what string, was *core.Override, now time.Time) {
	if now.Before(was.Until) {
		return
	}
	h.logger.LogAttrs(context.Background(), slog.LevelInfo, "weir: admin: an override has ended",
		slog.String("override", what), slog.String("limiter", key.limiter), slog.String("rule", key.rule),
		slog.String("from", overrideText(was)), slog.Time("until", was.Until), slog.String("why", was.Why))
}

// nameOf returns the name of a rule, with its limiter if there are several.
func (h *history) nameOf(key ruleKey) string {
	if len(h.limiters.names) > 1 {
		return key.limiter + " / " + key.rule
	}
	return key.rule
}

// because returns the reason of a change, in brackets.
func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// summary returns the first lines of the differences of a policy.
func summary(differences []string) string {
	const shown = 3
	if len(differences) == 0 {
		return ""
	}
	text := ": " + strings.Join(differences[:min(shown, len(differences))], "; ")
	if more := len(differences) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

type historyView struct {
	Every int64   // approximate milliseconds between samples
	Times []int64 // of samples, oldest first
	All   lineView
	Rules []lineView
	Marks []markView
}

// lineView has a count for each interval between two elements of Times. A list of zeros is nil.
type lineView struct {
	Limiter, Rule               string  `json:",omitempty"`
	Allowed, Denied             []int64 `json:",omitempty"`
	WouldDeny                   []int64 `json:",omitempty"` // of a rule
	Unavailable, Shed, Admitted []int64 `json:",omitempty"` // of all requests
}

type markView struct {
	At   int64
	Text string
}

func (h *history) view(now time.Time) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Use the monotonic clock, so that a step of the wall clock changes no interval.
	at := func(t time.Time) int64 { return now.UnixMilli() - now.Sub(t).Milliseconds() }
	v := historyView{
		Every: sampleEvery.Milliseconds(), Times: []int64{}, Rules: []lineView{},
		Marks: []markView{},
	}
	for _, t := range h.times {
		v.Times = append(v.Times, at(t))
	}
	for _, m := range h.marks {
		v.Marks = append(v.Marks, markView{at(m.at), m.text})
	}
	for key, of := range h.samples {
		line := lineView{
			Limiter: key.limiter, Rule: key.rule, Allowed: rises(of[historyAllowed]),
			Denied: rises(of[historyDenied]),
		}
		if key != (ruleKey{}) {
			line.WouldDeny = rises(of[historyWouldDeny])
			v.Rules = append(v.Rules, line)
			continue
		}
		line.Unavailable, line.Shed, line.Admitted = rises(of[historyUnavailable]),
			rises(of[historyShed]), rises(of[historyAdmitted])
		v.All = line
	}
	slices.SortFunc(v.Rules, func(a, b lineView) int {
		return cmp.Or(cmp.Compare(a.Limiter, b.Limiter), cmp.Compare(a.Rule, b.Rule))
	})
	return v
}

// rises returns the increase of each sum over the previous one, or nil if none. A replaced
// shedder counts from zero again.
func rises(sums []int64) []int64 {
	if len(sums) == 0 || sums[0] == sums[len(sums)-1] {
		return nil
	}
	rises := make([]int64, len(sums)-1)
	for i := range rises {
		rises[i] = max(0, sums[i+1]-sums[i])
	}
	return rises
}
