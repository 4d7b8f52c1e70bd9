package admin

import (
	"slices"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// In views, times are milliseconds since the Unix epoch, or 0 for none; waits are microseconds, or
// −1 for never.

type snapshotView struct {
	At, Since int64
	Limiters  []limiterView
	Rules     []ruleView
	Top       []topView
	TopSince  int64
	Spread    bool // the list of top keys is not useful
	Skipped   int64
	Shedders  []shedderView `json:",omitempty"`
	Memories  []memoryView
	Backends  []operationView
	Breakers  []breakerView
	Leases    []stats.LeaseSnapshot `json:",omitempty"`
	Policy    *policyView
}

type limiterView struct {
	Name                                      string
	Allowed, Denied, Unavailable, Abandoned   int64
	Preflights, QueueFull, QueueLeft, Waiting int64
	Held, Instances                           int
	HeldSince                                 int64
}

type topView struct {
	Limiter, Rule, Mode, Kind, Key, ID string
	Count, Error                       int64
}

type memoryView struct {
	Name          string
	Keys, MaxKeys int
	Displaced     int64
}

type operationView struct {
	Backend, Operation                    string
	Succeeded, Failed                     int64
	Timeout, Canceled, Unsupported, Other int64
	// upper bounds, over all calls so far; the highest bound if above it
	Median, P99 int64
}

type breakerView struct {
	Name, State string
	Open        bool
	Since       int64
	Opened      int64
}

type policyView struct {
	Source, Digest string
	Applied        int64
	Differences    []string
	FailingSince   int64
	Failure        string
}

func (p *page) viewSnapshot(now time.Time) any {
	shot := p.sources.Stats.Snapshot()
	return p.view(&shot, now)
}

// viewEarlier returns a snapshot from some seconds ago, so that a page that was just opened has
// rates. It lacks keys, and is nil if there is no sample.
func (p *page) viewEarlier(now time.Time) any {
	if shot := p.history.earlier(now); shot != nil {
		return p.view(shot, now)
	}
	return nil
}

func (p *page) view(shot *stats.Snapshot, now time.Time) snapshotView {
	v := snapshotView{At: millis(shot.At), Since: millis(shot.Since)}
	for i := range shot.Limiters {
		l := &shot.Limiters[i]
		v.Limiters = append(v.Limiters, limiterView{
			l.Name, l.Requests.Allowed, l.Requests.Denied, l.Requests.Unavailable,
			l.Requests.Abandoned,
			l.Preflights, l.QueueFull, l.QueueLeft, int64(l.Waiting), l.Held, l.Instances,
			millis(l.HeldSince),
		})
		v.Rules = append(v.Rules, p.viewRules(l.Name, l.Rules)...)
		p.viewTop(l, &v, now)
		v.Skipped += l.Skipped
	}
	for _, name := range p.names { // limiters without counters
		if !slices.ContainsFunc(shot.Limiters,
			func(l stats.LimiterSnapshot) bool { return l.Name == name }) {
			v.Rules = append(v.Rules, p.viewRules(name, nil)...)
		}
	}
	for i := range shot.Shedders {
		v.Shedders = append(v.Shedders, viewShedder(&shot.Shedders[i]))
	}
	for _, m := range shot.Memories {
		v.Memories = append(v.Memories, memoryView{m.Name, m.Keys, m.MaxKeys, m.Displaced})
	}
	for _, b := range shot.Backends {
		for i := range b.Operations {
			v.Backends = append(v.Backends, viewOperation(b.Name, &b.Operations[i])...)
		}
	}
	for _, b := range shot.Breakers {
		v.Breakers = append(v.Breakers,
			breakerView{b.Name, b.State, b.Open, millis(b.Since), b.Opened})
	}
	v.Leases = shot.Leases
	v.Policy = p.viewPolicy()
	return v
}

// maxTop is how many top keys of a limiter are shown.
const maxTop = 20

func (p *page) viewTop(l *stats.LimiterSnapshot, v *snapshotView, now time.Time) {
	if since := millis(l.Top.Since); v.TopSince == 0 || since > 0 && since < v.TopSince {
		v.TopSince = since
	}
	v.Spread = v.Spread || l.Top.Spread
	for _, k := range l.Top.Keys[:min(maxTop, len(l.Top.Keys))] {
		id := p.rowID(row{l.Name, k.Rule, k.Key, limits.Limit{}}, k.Cut, now)
		name := ""
		if i := slices.IndexFunc(v.Rules,
			func(r ruleView) bool { return r.Limiter == l.Name && r.Name == k.Rule }); i >= 0 {
			name = v.Rules[i].KeyName
		}
		kind, key := p.mask.show(k.Key, name)
		v.Top = append(v.Top,
			topView{l.Name, k.Rule, k.Mode.String(), kind, key, id, k.Count, k.Error})
	}
}

func viewOperation(backend string, o *stats.OperationSnapshot) []operationView {
	succeeded, failed := o.Succeeded.Count(), o.Failed.Count()
	if succeeded+failed == 0 {
		return nil
	}
	return []operationView{{
		backend, o.Name, succeeded, failed, o.Errors.Timeout, o.Errors.Canceled,
		o.Errors.Unsupported, o.Errors.Other,
		quantile(&o.Succeeded, 50), quantile(&o.Succeeded, 99),
	}}
}

// quantile returns the upper bound of the bucket that contains a percentile of h, or the lower
// bound of the last bucket.
func quantile(h *stats.Histogram, percent int64) int64 {
	left := h.Count() * percent / 100
	for i, n := range h.Counts {
		if left -= n; left < 0 {
			return h.Bounds[min(i, len(h.Bounds)-1)].Microseconds()
		}
	}
	return 0
}

func (p *page) viewPolicy() *policyView {
	policy := p.sources.Policy
	if policy == nil {
		return nil
	}
	v := &policyView{
		Source: policy.Source(), Digest: policy.Digest(), Applied: millis(policy.Applied()),
		Differences: policy.Differences(),
	}
	if since, err := policy.Failure(); err != nil {
		v.FailingSince, v.Failure = millis(since), err.Error()
	}
	return v
}

// millis returns t in milliseconds, 0 for the zero Time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// micros returns d in microseconds, -1 for limits.Never.
func micros(d time.Duration) int64 {
	if d == limits.Never {
		return -1
	}
	return d.Microseconds()
}
