package client

import "time"

// doubt is what has been seen of waits that a server told without denying. A number may be in another unit, or
// about another limit, and the server may renew earlier than it says. While it asks for a longer wait than
// Options.MaxWait, requests fail. When that has lasted for MaxWait, one is let through, and its answer says
// whether the claim is true.
type doubt struct {
	refuted bool          // it was not denied: until a denial, nothing is held back for longer than MaxWait
	empty   bool          // it was not denied, and again told that nothing is left, which is ignored from then on
	proven  time.Duration // it was denied: the longest such wait
	claim   time.Duration // that of the one that was denied, until a later one is not
	since   instant       // when claim began
}

// trusted is how many times longer than a proven wait one may be that is believed. Units that are mistaken for each
// other differ by more.
const trusted = 10

// claimed returns how long the whole wait is that ends at, and whether nothing is said to be left.
func (b *bucket) claimed(at instant) (wait time.Duration, nothingLeft bool) {
	return at - max(b.flight.last, b.told.at), b.told.empty()
}

// believed returns when requests go that were told to wait until at.
func (b *bucket) believed(at, now instant, p *pacer) instant {
	wait, nothingLeft := b.claimed(at)
	since := at - wait
	switch d := &b.told.doubt; {
	case wait <= p.maxWait, nothingLeft && wait <= trusted*d.proven:
		return at
	case d.refuted && (nothingLeft || p.pace == Evenly):
		return since + p.maxWait/2 // those behind it wait as long again for its answer
	case d.refuted:
		return now
	case at-now > p.maxWait && now-since >= max(p.maxWait, patience):
		return now
	}
	return at
}

// judge notes what an answer says of the wait that a request was told, and was let through earlier. A denial that asks
// for a shorter wait proves no more than that, and those behind it prove as much as they add.
func (b *bucket) judge(tk ticket, now instant, a *answer) {
	d := &b.told.doubt
	switch {
	case a.limited && a.everybody: // which is about something else
	case a.limited:
		if tk.claim > 0 {
			d.claim, d.since = tk.claim, tk.since
		}
		proven := d.claim
		if a.wait > 0 {
			proven = min(proven, now+a.wait-d.since)
		}
		d.proven = max(d.proven, proven)
	case tk.seq < b.flight.epoch: // sent before the last denial
	case !tk.early:
		d.claim = 0
	default:
		d.claim = 0
		d.refuted = true
		if tk.claim > 0 {
			d.empty = a.counted && a.quota.left == 0
			b.told.known = false
		}
	}
}

// denied ends what was thought of claims that were refuted.
func (d *doubt) denied() { d.refuted, d.empty = false, false }

// ignores reports whether q tells what was refuted: that nothing is left for longer than MaxWait.
func (d *doubt) ignores(q *quota, maxWait time.Duration) bool {
	d.empty = d.empty && q.left == 0
	return d.empty && q.window > maxWait
}

// ending is what has been seen of the ends that fields tell which say when all of a limit is renewed.
type ending struct {
	at     instant // of the first answer since something was renewed
	window time.Duration
	left   int64
	moves  bool // the end moves with each answer
}

// observe notes a new answer, by which grown units were renewed. An end that moves with each
// answer, though less is left, may be the length of a period, or in another unit. The end of a
// bucket moves as well: by the time that refills what was used.
func (e *ending) observe(now instant, q quota, grown int64) {
	moved := now + q.window - e.at - e.window
	switch {
	case grown > 0, now >= e.at+e.window:
		*e = ending{now, q.window, q.left, e.moves}
	case !q.reset || now-e.at < resetError:
	case moved <= loosestReset && moved >= -loosestReset:
		e.moves = false
	case q.left < e.left && q.window <= e.window+looseReset:
		e.moves = true
	}
}

// paces reports whether what is left is spread until the end that was told. An end that moves is not believed,
// unless a refill has been seen or the end is so close that nothing would be let through before it.
func (b *bucket) paces(maxWait time.Duration) bool {
	return !b.told.ending.moves || b.told.window <= 2*maxWait || b.refill.every > 0
}
