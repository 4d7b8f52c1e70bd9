package client

import (
	"math"
	"time"
)

// instant is a time since a pacer was made. time.Since reads only the monotonic clock, in half the
// time of time.Now.
type instant = time.Duration

// unknown is an instant that depends on an answer.
const unknown instant = math.MaxInt64

// bucket is what a pacer knows of one limit. The lock of the pacer guards it.
//
// Six estimators learn from answers: waits, backoff, told, refill, learned and tokens. Each knows
// an instant before which nothing starts. bucket.next combines them: the latest binds.
type bucket struct {
	key      key
	name     string
	site     string  // siteOf its host
	account  *bucket // counts all requests of the account; or nil
	parent   *bucket // the account, or of a path that is apart the bucket of its host; or nil
	common   *common // if this is the bucket of an account; or nil
	major    string  // of Discord: see identity
	paths    *paths  // nil until a denial asks for no wait
	standIn  bool    // of Discord: used until an answer names the limit of the route
	children int     // buckets with this parent
	queue    queue
	flight   flight
	opening  opening

	waits   waits   // how long denials ask to wait
	backoff backoff // how long to wait after denials that do not ask for it
	told    told    // what is left of the limit, by answers
	refill  refill  // how that is spread, and how fast it is refilled
	learned learned // the pace of a server that tells nothing
	tokens  *tokens // what is left of limits of tokens; nil: the dialect has none

	restart restart // of the server: refused connections
	cap     gate    // keeps calls from asking Options.Limit in vain
	budget  budget  // of repetitions
	pause   pause   // as told to Options.Observe
}

// flight counts the requests of a bucket that are in flight.
type flight struct {
	sent, answered uint64
	busy           int     // requests whose answers have not been read to the end
	last           instant // when the latest one started
	deniedAt       instant // when the last denial arrived
	epoch          uint64  // the first request that is not outdated
}

// ticket is what a pacer remembers of a request until its answer.
type ticket struct {
	seq      uint64        // its number in the bucket: 1 is the first
	answered uint64        // how many requests of the bucket had an answer when it started
	at       instant       // when it started
	last     instant       // when the one before it started
	heldBack bool          // had to wait
	probes   bool          // told had nothing left: its answer shows whether there is more
	early    bool          // was sent before the told instant, to test it: see doubt
	claim    time.Duration // if early and told had nothing left: the wait that it tests; else 0
	since    instant       // when claim began
	tokens   *ledger       // what it has taken of limits of tokens; nil: nothing
}

// flying returns how many requests have no answer yet.
func (f *flight) flying() int64 { return int64(f.sent - f.answered) }

// overlapping returns how many other requests the server may have decided after the request of tk.
// Its answer has just arrived.
//
//	10 were answered when it started; 15 have been sent by now: up to 4 others
func (f *flight) overlapping(tk ticket) int64 { return int64(f.sent - tk.answered - 1) }

// outdated reports whether request seq was sent before the last denial arrived, or before the last
// probe. Then its answer does not tell what is left now.
func (f *flight) outdated(seq uint64) bool { return seq < f.epoch }

// outdateAll makes all requests that were sent by now outdated.
func (f *flight) outdateAll() { f.epoch = f.sent + 1 }

// ready returns the earliest instant at which c may start if it is the next, and what it waits for.
func (p *pacer) ready(b *bucket, c *call, now instant) (instant, string) {
	b.advance(now)
	at, source := b.next(&p.o, &c.cost, now)
	if b.account != nil {
		if a, s := b.account.admitsAt(&c.id); a > at {
			return a, s
		}
	}
	return at, source
}

// next returns the instant at which b lets a request with a cost start, now at the earliest, and
// what asks for that. It asks told, refill, tokens and learned only if nothing else holds b back:
// while something does, answers may still change what they say.
func (b *bucket) next(o *Options, cost *spend, now instant) (at instant, source string) {
	at = now
	bind := func(until instant, by string) {
		if until > at {
			at, source = until, by
		}
	}
	if bind(b.denial()); at > now {
		return at, source
	}
	if o.MaxInFlight > 0 && b.flight.busy >= o.MaxInFlight {
		return unknown, sourceInFlight
	}
	bind(b.cap.next(), sourceLimit)
	if bind(b.opening.next(b, now), sourceFirstAnswer); at > now {
		return at, source
	}
	told, by := b.toldNext(o, cost, now)
	bind(b.believed(told, now, o), by)
	bind(b.learned.next(b.flight.last), sourceLearned)
	return at, source
}

// denial returns when the last denials let requests start again, and what asks for that.
func (b *bucket) denial() (instant, string) {
	if b.backoff.until > b.waits.until {
		return b.backoff.until, sourceBackoff
	}
	return b.waits.until, b.waits.source
}

// toldNext returns when told, refill and tokens let a request with a cost start, and which field of
// an answer asks for that.
func (b *bucket) toldNext(o *Options, cost *spend, now instant) (instant, string) {
	at := max(b.told.next(), b.refill.next(b, o, now))
	if until, source := b.tokens.next(cost, now); until > at {
		return until, source
	}
	return at, b.told.source
}

// start notes that c, which is ready, is sent: in its bucket, its account and its ticket.
func (p *pacer) start(b *bucket, c *call, now instant) {
	if b.account != nil {
		b.account.common.start(&c.id, now)
	}
	if !c.again { // neither repeated nor turned back by the cap
		b.budget.send(now)
	}
	// What told asks for now: b.start changes told.
	toldAt, _ := b.toldNext(&p.o, &c.cost, now)
	claim, nothingLeft := b.claimed(toldAt)
	c.ticket, c.stage = b.start(now, c.heldBack), started
	if b.tokens != nil {
		c.ticket.tokens = b.tokens.start(&c.cost, now)
	}
	c.ticket.early = toldAt > now
	if c.ticket.early && nothingLeft {
		c.ticket.claim, c.ticket.since = claim, toldAt-claim
	}
	if p.limiter != nil {
		b.cap.asking++
		c.stage = asking
	}
}

// start notes that a request, which is ready, is sent, and returns its ticket.
func (b *bucket) start(now instant, heldBack bool) ticket {
	f, othersWait := &b.flight, b.queue.Size > 0
	f.sent++
	tk := ticket{seq: f.sent, answered: f.answered, at: now, last: f.last, heldBack: heldBack}
	f.last = now
	f.busy++
	if f.flying() == 1 { // b was idle
		b.told.forgetLeast()
	}
	b.learned.start(now, tk.last, othersWait || heldBack)
	if b.standIn {
		b.account.common.stray(b.major, 1)
	}
	if !othersWait {
		b.refill.spreadUntil = 0
	}
	o, t := &b.opening, &b.told
	switch {
	case t.empty():
		b.probe(&tk, now)
	case t.known:
		if t.left--; t.left == t.low() {
			b.spread(now)
		}
	case !o.answered && !o.open: // nothing is known: this one goes first
		o.open, o.first = true, tk
	}
	return tk
}

// probe notes that the request of tk is sent though told has nothing left: the limit should have
// renewed, or told is doubted. The others wait for its answer.
func (b *bucket) probe(tk *ticket, now instant) {
	tk.probes = true
	if b.opening.open { // the probe before takes too long: the others wait anew
		b.opening.first.at = now
		return
	}
	b.opening.open, b.opening.first = true, *tk
	b.flight.epoch = tk.seq // all earlier requests are outdated
	b.told.left = 0         // it may have been negative
}

// cancel takes back a start: the request was not sent.
func (b *bucket) cancel(tk ticket, id *identity) {
	b.answer(tk)
	b.flight.busy--
	if b.flight.last == tk.at { // none has started since
		b.flight.last = tk.last
	}
	if b.account != nil {
		b.account.common.cancel(id, tk.at)
	}
	b.learned.count-- // learned counts all numbers between two denials as accepted requests
	if tk.tokens != nil {
		b.tokens.cancel(tk.tokens)
	}
	if b.told.known && !tk.probes && !b.flight.outdated(tk.seq) { // told counts it
		b.told.left++
	}
}

// answer notes that a request is no longer in flight.
func (b *bucket) answer(tk ticket) {
	b.flight.answered++
	if tk.tokens != nil {
		b.tokens.answer(tk.tokens)
	}
	if b.standIn {
		b.account.common.stray(b.major, -1)
	}
	if b.opening.open && tk.seq >= b.opening.first.seq { // one that started later will do
		b.opening.open = false
	}
}

// observe learns from an answer. strays is how many requests in other buckets may count against
// this one. If the answer denies, observe returns the wait and what asks for it.
func (b *bucket) observe(o *Options, now instant, tk ticket, a *answer, strays int) (
	wait time.Duration, source string) {
	learnsPace := o.Pace != Off && o.Dialect == Standard
	if a.tokens != nil && o.Pace != Off {
		b.tokens.observe(tk, now, a.tokens)
	}
	switch {
	case a.limited:
		return b.deny(now, tk, a, learnsPace)
	case a.counted && o.Pace != Off && !b.told.doubt.ignores(&a.quota, o.MaxWait):
		b.believe(tk, now, a.quota, strays)
	default:
		if learnsPace && !b.told.counted {
			b.learnPace(&tk, now)
		}
		b.allow(tk, now)
	}
	return 0, ""
}

// deny learns from a denial. It returns the wait and what asks for it.
func (b *bucket) deny(now instant, tk ticket, a *answer, learnsPace bool) (time.Duration, string) {
	f, t := &b.flight, &b.told
	if learnsPace && !f.outdated(tk.seq) {
		t.others.deny(t.known && t.left > 0, !b.opening.answered, a.quota.Limit, f.flying())
	}
	isNewStrike := tk.at > f.deniedAt // was not in flight at the last denial
	oneGoesFirst := true              // after the wait; false: all go on at the learned pace
	switch {
	case a.wait > 0:
		b.waits.observe(now, a)
	case !learnsPace || t.counted: // there is no pace to go on at
		b.backoff.observe(now, isNewStrike, !learnsPace, 0)
	default:
		every, old := b.learned.deny(now, tk, f.outdated(tk.seq))
		if old { // a later denial has set the wait
			at, source := b.denial()
			return max(at-now, 1), source
		}
		b.backoff.observe(now, isNewStrike || every > 0, b.learned.busy(now), every)
		oneGoesFirst = every == 0 || b.backoff.strikes > 1
	}
	at, source := b.denial()
	f.deniedAt = now
	f.outdateAll()
	b.opening.answered, b.opening.open, b.opening.ramp = true, false, 0
	t.deny(at, source, oneGoesFirst)
	return at - now, source
}

// learnPace learns the pace of a server that tells nothing from an allowed answer.
func (b *bucket) learnPace(tk *ticket, now instant) {
	if !b.opening.answered { // few requests start until more answers have arrived
		b.opening.ramp = now + patience
	}
	waiting := b.queue.Size > 0 || tk.heldBack
	b.learned.observe(now, !b.flight.outdated(tk.seq), waiting, b.backoff.strikes)
}

// allow learns from an allowed answer that does not tell what is left, or is not believed.
func (b *bucket) allow(tk ticket, now instant) {
	b.opening.answered = true
	outdated := b.flight.outdated(tk.seq)
	if !outdated {
		b.backoff.strikes = 0
	}
	t := &b.told
	t.spoilLeast()
	if !t.known || now < t.renew || outdated {
		return
	}
	t.known = false // the answer shows that there is more
	at, _ := b.denial()
	wait := at - b.flight.deniedAt
	if b.learned.every == 0 && tk.probes && b.queue.Size > 0 && wait > 0 {
		// Nothing tells how fast the others may follow. They spread over as much time as the wait, a
		// second to a minute.
		over := min(max(wait, time.Second), time.Minute)
		b.refill.gap, b.refill.spreadUntil = over/time.Duration(b.queue.Size+1), now+over
	}
}

// freeAt returns when denials, caps and limits with little left no longer hold b back. It ignores
// spreading and the learned pace.
func (b *bucket) freeAt() instant {
	at, _ := b.denial()
	if at = max(at, b.cap.until, b.tokens.freeAt()); b.common != nil {
		at = max(at, b.common.invalid.next())
	}
	if b.told.known && b.told.left <= b.told.low() {
		at = max(at, b.told.renew)
	}
	return at
}

// inUse reports whether calls wait or are in flight, or other buckets need b.
func (b *bucket) inUse() bool {
	return b.queue.Size > 0 || b.flight.flying() > 0 || b.flight.busy > 0 || b.children > 0
}
