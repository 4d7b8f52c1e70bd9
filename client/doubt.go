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

// judge learns from the answer to a request, which may have been let through early and may be
// outdated. It reports whether nothing was said to be left, and that is refuted. A denial that asks
// for less than the claim proves only that. Repeated ones prove the sum.
func (d *doubt) judge(tk ticket, now instant, a *answer, outdated bool) (refuted bool) {
	switch {
	case a.limited && a.global: // is about another limit
	case a.limited:
		if tk.claim > 0 {
			d.claim, d.since = tk.claim, tk.since
		}
		proven := d.claim
		if a.wait > 0 {
			proven = min(proven, now+a.wait-d.since)
		}
		d.proven = max(d.proven, proven)
	case outdated:
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

// ending watches the end of a limit that renews as a whole. An end that moves with each answer,
// though less is left, may be the length of a period, or in another unit. The end of a bucket
// moves, too, but by the time that refills what was used.
//
//	3,600 s to go, 100 left; 10 s later 3,600 s to go, 90 left: it moves
//	bucket of a unit a second: 3,600 s to go, 100 left; then 3,610 s to go, 90 left: it does not
type ending struct {
	at     instant // of the first answer since something was renewed
	window time.Duration
	left   int64
	moves  bool
}

// observe learns from an answer. grown units were renewed since the one before.
func (e *ending) observe(now instant, q quota.Rest, grown int64) {
	moved := now + q.Window - e.at - e.window
	switch {
	case grown > 0, now >= e.at+e.window:
		*e = ending{now, q.Window, q.Left, e.moves}
	case !q.Whole || now-e.at < resetError:
	case moved <= loosestReset && moved >= -loosestReset:
		e.moves = false
	case q.Left < e.left && q.Window <= e.window+looseReset:
		e.moves = true
	}
}
