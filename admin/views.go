package admin

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/http/operator"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

type snapshotView struct {
	At, Since int64
	Limiters  []limiterView
	operator.Snapshot
	Top      []topView
	TopSince int64
	Spread   bool // the list of top keys is not useful
	Skipped  int64
	Shedders []shedderView `json:",omitempty"`
	Memories []memoryView
	Backends []operationView
	Breakers []breakerView
	Leases   []stats.LeaseSnapshot `json:",omitempty"`
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

type denialView struct {
	At              int64
	Limiter, Rule   string
	Kind, Key, ID   string
	Limit, Source   string
	Cost, Remaining int64
	RetryAfter      int64
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

// viewer makes the views of what stats has counted. A row of a view whose key may be changed has an
// id.
type viewer struct {
	stats    *stats.Stats
	policy   Policy
	limiters *limiters
	rows     *rows
	mask     *masker
}

func (w *viewer) snapshot(now time.Time) any {
	shot := w.stats.Snapshot()
	return w.view(&shot, now)
}

func (w *viewer) view(shot *stats.Snapshot, now time.Time) snapshotView {
	v := snapshotView{At: operator.Millis(shot.At), Since: operator.Millis(shot.Since)}
	for i := range shot.Limiters {
		l := &shot.Limiters[i]
		v.Limiters = append(v.Limiters, limiterView{
			l.Name, l.Requests.Allowed, l.Requests.Denied, l.Requests.Unavailable,
			l.Requests.Abandoned,
			l.Preflights, l.QueueFull, l.QueueLeft, int64(l.Waiting), l.Held, l.Instances,
			operator.Millis(l.HeldSince),
		})
		v.Rules = append(v.Rules, viewRules(l.Name, w.limiters.byName[l.Name], l.Rules)...)
		w.viewTop(l, &v, now)
		v.Skipped += l.Skipped
	}
	for _, name := range w.limiters.names { // limiters without counters
		if !slices.ContainsFunc(shot.Limiters,
			func(l stats.LimiterSnapshot) bool { return l.Name == name }) {
			v.Rules = append(v.Rules, viewRules(name, w.limiters.byName[name], nil)...)
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
			breakerView{b.Name, b.State, b.Open, operator.Millis(b.Since), b.Opened})
	}
	v.Leases = shot.Leases
	v.Policy = viewPolicy(w.policy)
	return v
}

// maxTop is how many top keys of a limiter are shown.
const maxTop = 20

func (w *viewer) viewTop(l *stats.LimiterSnapshot, v *snapshotView, now time.Time) {
	if since := operator.Millis(l.Top.Since); v.TopSince == 0 || since > 0 && since < v.TopSince {
		v.TopSince = since
	}
	v.Spread = v.Spread || l.Top.Spread
	for _, k := range l.Top.Keys[:min(maxTop, len(l.Top.Keys))] {
		id := w.rows.changeable(row{l.Name, k.Rule, k.Key, limits.Limit{}}, k.Cut, now)
		name := ""
		if i := slices.IndexFunc(v.Rules,
			func(r operator.Rule) bool { return r.Limiter == l.Name && r.Name == k.Rule }); i >= 0 {
			name = v.Rules[i].KeyName
		}
		kind, key := w.mask.show(k.Key, name)
		v.Top = append(v.Top,
			topView{l.Name, k.Rule, k.Mode.String(), kind, key, id, k.Count, k.Error})
	}
}

const maxDenials = 256

// denials returns the latest denials of all limiters, latest first.
func (w *viewer) denials(now time.Time) any {
	type denial struct {
		limiter string
		*stats.Denial
	}
	var denials []denial
	shot := w.stats.Snapshot()
	for i := range shot.Limiters {
		l := &shot.Limiters[i]
		for j := range l.Denials {
			denials = append(denials, denial{l.Name, &l.Denials[j]})
		}
	}
	names := make(map[ruleKey]string)
	for name, limiter := range w.limiters.byName {
		for _, r := range limiter.State().Rules {
			names[ruleKey{name, r.Name}] = r.KeyName
		}
	}
	slices.SortStableFunc(denials, func(a, b denial) int { return b.At.Compare(a.At) })
	views := []denialView{}
	// only these get ids, since ids of others would displace them
	for _, d := range denials[:min(maxDenials, len(denials))] {
		id := w.rows.changeable(row{d.limiter, d.Rule, d.Key, d.Limit}, d.Cut, now)
		kind, key := w.mask.show(d.Key, names[ruleKey{d.limiter, d.Rule}])
		views = append(views, denialView{
			operator.Millis(d.At), d.limiter, d.Rule, kind, key, id, limitText(d.Limit), d.Source.String(),
			d.Cost, d.Remaining, operator.Micros(d.RetryAfter),
		})
	}
	return views
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
