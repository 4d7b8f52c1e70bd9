package client

import (
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// doubt tests waits that a server told without denying. The number may be in another unit or about
// another limit, and the server may renew earlier. While it asks for more than Options.MaxWait,
// requests fail. When that has lasted for MaxWait, one request is let through to test the claim:
//
//	MaxWait 30 s; an answer tells that nothing is left for 3,600 s
//	requests fail for 30 s; then one is sent
//	denied:  the claim is proven; the others fail until the hour is over
//	allowed: the claim is refuted; no wait exceeds 30 s until a denial
type doubt struct {
	refuted bool          // the request was allowed
	empty   bool          // and told again that nothing is left: ignored from then on
	proven  time.Duration // the longest wait that a denial has proven
	claim   time.Duration // of the request that was denied, until a later one is allowed
	since   instant       // when claim began
}

// trusted is how many times longer than a proven wait another one is believed. Units that servers
// mix up differ by more.
const trusted = 10

// believed returns when requests start that were told to wait for a time, until at. nothingLeft says
// that nothing is left.
func (d *doubt) believed(
	at, now instant, wait time.Duration, nothingLeft bool, o *Options) instant {
	since := at - wait
	switch {
	case wait <= o.MaxWait, nothingLeft && wait <= trusted*d.proven:
		return at
	case d.refuted && (nothingLeft || o.Pace == Evenly):
		return since + o.MaxWait/2 // requests behind it wait as long again for its answer
	case d.refuted:
		return now
	case at-now > o.MaxWait && now-since >= max(o.MaxWait, patience):
		return now
	}
	return at
}

// judge learns from the answer to a request, which may have been let through early. It reports
// whether nothing was said to be left, and that is refuted. A denial that asks for less than the
// claim proves only that. Repeated ones prove the sum.
func (d *doubt) judge(tk ticket, now instant, a *answer) (refuted bool) {
	switch {
	case a.limited && (a.global || a.hopeless()): // is not about this limit
	case a.limited:
		if tk.claim > 0 {
			d.claim, d.since = tk.claim, tk.since
		}
		proven := d.claim
		if a.wait > 0 {
			proven = min(proven, now+a.wait-d.since)
		}
		d.proven = max(d.proven, proven)
	case tk.outdated:
	case !tk.early:
		d.claim = 0
	default:
		d.claim = 0
		d.refuted = true
		if tk.claim > 0 {
			d.empty = a.counted && a.quota.Left == 0
			return true
		}
	}
	return false
}

// deny makes refuted claims credible again.
func (d *doubt) deny() { d.refuted, d.empty = false, false }

// ignores reports whether q repeats a refuted claim: nothing is left for longer than MaxWait.
func (d *doubt) ignores(q *quota.Rest, maxWait time.Duration) bool {
	d.empty = d.empty && q.Left == 0
	return d.empty && q.Window > maxWait
}
