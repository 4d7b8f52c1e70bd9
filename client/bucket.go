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
// Five estimators learn from answers: waits, backoff, told, refill and learned. Each knows an
// instant before which nothing starts. bucket.next combines them: the latest binds.
type bucket struct {
	key     key
	name    string
	site    string  // of its host
	account *bucket // of all requests of the account, if the dialect limits these; or nil
	common  *common // if this is the bucket of an account; or nil
	major   string  // of Discord: see identity
	paths   *paths  // of a host; nil until a denial asks for no wait
	standIn bool    // of Discord: no answer has named the bucket of this route
	queue   queue
	flight  flight
	opening opening

	waits   waits   // how long denials ask to wait
	backoff backoff // after denials that ask for no wait
	told    told    // the rest of the limit, by answers
	refill  refill  // how the rest is spread, and how fast it is refilled
	learned learned // the rate of a server that tells nothing
	tokens  *tokens // the rest of limits of tokens; nil: the dialect has none

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
	epoch          uint64  // answers to requests before this one tell nothing of now
}

// ticket is what a pacer remembers of a request until its answer.
type ticket struct {
	seq, answered uint64        // of the bucket when it started
	at, last      instant       // when it started, and the one before it
	opened        bool          // was sent though told had nothing left: others wait for its answer
	heldBack      bool          // had to wait
	early         bool          // was sent before the told instant, to test it: see doubt
	claim         time.Duration // the wait that it tests; 0: none that says nothing is left
	since         instant       // when claim began
	tokens        *ledger       // what it has taken of limits of tokens; nil: nothing
}

// flying returns how many requests have no answer yet.
func (f *flight) flying() int64 { return int64(f.sent - f.answered) }

// overlapping returns how many other requests the server may have decided after the request of tk.
// Its answer has just arrived.
//
//	10 were answered when it started; 15 have been sent by now: up to 4 others
func (f *flight) overlapping(tk ticket) int64 { return int64(f.sent - tk.answered - 1) }

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
// what asks for that. While a denial, a cap or the first request holds b back, it does not ask told,
// refill and learned: they will know more then.
func (b *bucket) next(o *Options, cost *spend, now instant) (at instant, source string) {
	at = now
	bind := func(until instant, by string) {
		if until > at {
			at, source = until, by
		}
	}
	bind(b.denial())
	if at == now && o.MaxInFlight > 0 && b.flight.busy >= o.MaxInFlight {
		bind(unknown, sourceInFlight)
	}
	if at == now {
		bind(b.cap.next(), sourceLimit)
		bind(b.opening.next(b, now), sourceFirstAnswer)
	}
	if at == now {
		told, by := b.toldNext(o, cost, now)
		bind(b.believed(told, now, o), by)
		bind(b.learned.next(b.flight.last), sourceLearned)
	}
	return at, source
}

// denial returns when the last denials let requests start again, and what asks for that.
func (b *bucket) denial() (instant, string) {
	if b.backoff.until > b.waits.until {
		return b.backoff.until, sourceBackoff
	}
	return b.waits.until, b.waits.source
}

// toldNext returns when told, refill and tokens let a request with a cost start, and the field of an
// answer that told them.
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
	if c.attempt == 1 && !c.again { // neither repeated nor turned back by the cap
		b.budget.send(now)
	}
	at, _ := b.toldNext(&p.o, &c.cost, now)
	claim, nothingLeft := b.claimed(at)
	c.ticket, c.stage = b.start(now, c.heldBack), started
	if b.tokens != nil {
		c.ticket.tokens = b.tokens.start(&c.cost, now)
	}
	if c.ticket.early = at > now; c.ticket.early && nothingLeft {
		c.ticket.claim, c.ticket.since = claim, at-claim
	}
	if p.limiter != nil {
		b.cap.asking++
		c.stage = asking
	}
}

// start notes that a request, which is ready, is sent, and returns its ticket.
func (b *bucket) start(now instant, heldBack bool) ticket {
	f, waiting := &b.flight, b.queue.Size > 0
	f.sent++
	tk := ticket{seq: f.sent, answered: f.answered, at: now, last: f.last, heldBack: heldBack}
	if f.flying() == 1 {
		b.told.least = math.MaxInt64 // b was idle: no answer has told anything since
	}
	b.learned.start(now, f.last, waiting || heldBack)
	f.last = now
	f.busy++
	if b.standIn {
		b.account.common.stray(b.major, 1)
	}
	if !waiting {
		b.refill.spreadUntil = 0
	}
	o, t := &b.opening, &b.told
	switch {
	case t.empty() && o.open: // the one that went first takes too long: this one goes, too
		tk.opened, o.first.at = true, now
	case t.empty(): // the limit has renewed or is doubted: this one goes first
		tk.opened = true
		o.open, o.first, f.epoch, t.left = true, tk, f.sent, 0
	case !o.answered && !o.open: // nothing is known: this one goes first
		o.open, o.first = true, tk
	case t.known:
		if t.left--; t.left == t.low() {
			b.spread(now)
		}
	}
	return tk
}

// cancel takes back a start: the request was not sent.
func (b *bucket) cancel(tk ticket, id *identity) {
	b.answer(tk)
	b.flight.busy--
	if b.flight.last == tk.at {
		b.flight.last = tk.last
	}
	if b.account != nil {
		b.account.common.cancel(id, tk.at)
	}
	b.learned.count-- // learned infers its count from seq, which was used up
	if tk.tokens != nil {
		b.tokens.cancel(tk.tokens)
	}
	if b.told.known && !tk.opened && tk.seq >= b.flight.epoch {
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
	if b.opening.open && tk.seq >= b.opening.first.seq {
		b.opening.open = false
	}
}

// observe learns from an answer. strays is how many requests in other buckets may count against
// this one. If the answer denies, observe returns the wait and what asks for it.
func (b *bucket) observe(o *Options, now instant, tk ticket, a *answer, strays int) (
	wait time.Duration, source string) {
	learns := o.Pace != Off && o.Dialect == Standard
	if a.tokens != nil && o.Pace != Off {
		b.tokens.observe(tk, now, a.tokens)
	}
	switch {
	case a.limited:
		return b.deny(now, tk, a, learns)
	case a.counted && o.Pace != Off && !b.told.doubt.ignores(&a.quota, o.MaxWait):
		b.believe(tk, now, a.quota, strays)
		return 0, ""
	case learns && !b.told.counted:
		if !b.opening.answered {
			b.opening.ramp = now + patience
		}
		waiting := b.queue.Size > 0 || tk.heldBack
		b.learned.observe(now, tk.seq >= b.flight.epoch, waiting, b.backoff.strikes)
	}
	b.allow(tk, now)
	return 0, ""
}

// deny learns from a denial. It returns the wait and what asks for it.
func (b *bucket) deny(now instant, tk ticket, a *answer, learns bool) (time.Duration, string) {
	f, t, empty := &b.flight, &b.told, true // empty: nothing goes on until the wait is over
	if learns && tk.seq >= f.epoch {
		t.others.deny(t.known && t.left > 0, !b.opening.answered, a.quota.limit, f.flying())
	}
	switch {
	case a.wait > 0:
		b.waits.observe(now, a)
	case !learns || t.counted:
		b.backoff.observe(now, tk.at > f.deniedAt, !learns, 0)
	default:
		every, old := b.learned.deny(now, tk, tk.seq < f.epoch)
		if old {
			at, source := b.denial()
			return max(at-now, 1), source
		}
		b.backoff.observe(now, tk.at > f.deniedAt || every > 0, b.learned.busy(now), every)
		empty = every == 0 || b.backoff.strikes > 1 // else requests go on at the learned pace
	}
	at, source := b.denial()
	f.deniedAt, f.epoch = now, f.sent+1
	b.opening.answered, b.opening.open, b.opening.ramp = true, false, 0
	t.deny(at, source, empty)
	return at - now, source
}

// allow learns from an answer that is no denial and does not tell what is left.
func (b *bucket) allow(tk ticket, now instant) {
	b.opening.answered = true
	if tk.seq >= b.flight.epoch {
		b.backoff.strikes = 0
	}
	t := &b.told
	t.least = math.MinInt64 // this answer may have been decided last, and tells nothing
	if !t.known || now < t.renew || tk.seq < b.flight.epoch {
		return
	}
	t.known = false
	at, _ := b.denial()
	wait := at - b.flight.deniedAt
	if b.learned.every == 0 && tk.opened && b.queue.Size > 0 && wait > 0 {
		// Nothing tells how fast the others may follow. They spread over as much time as the wait.
		over := min(max(wait, time.Second), time.Minute)
		b.refill.gap, b.refill.spreadUntil = over/time.Duration(b.queue.Size+1), now+over
	}
}

// freeAt returns when the bucket no longer holds anything back.
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
	return b.queue.Size > 0 || b.flight.flying() > 0 || b.flight.busy > 0 ||
		b.common != nil && b.common.children > 0
}
