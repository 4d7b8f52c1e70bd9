package client

import (
	"math"
	"time"
)

// instant is a time since a pacer was made. The monotonic clock alone is read in
// half of the time of time.Now.
type instant = time.Duration

// unknown is the instant of what only an answer can bring about.
const unknown instant = math.MaxInt64

// bucket is what a pacer knows of one limit. The pacer's lock guards it.
//
// Five estimators learn from its answers. Each has a method that observes an answer, and next, the
// instant before which it lets nothing start. The latest of their instants binds.
type bucket struct {
	key     key
	name    string
	site    string  // of its host
	account *bucket // of a dialect that has limits for all requests of an account; or nil
	shared  *shared // of an account; or nil
	major   string  // of Discord
	paths   *paths  // of a host; nil: none was denied
	standIn bool    // of Discord: no answer has named the bucket of this route
	queue   queue
	flight  flight
	opening opening

	waits   waits   // how long denials ask to wait
	backoff backoff // from denials that ask for no wait
	told    told    // what answers say is left
	refill  refill  // how fast that is renewed
	learned learned // the rate of a server that says nothing

	restart restart
	cap     gate
	budget  budget
	pause   pause
}

// flight is what is known of the requests of a bucket that are under way.
type flight struct {
	sent, answered uint64
	busy           int     // requests whose answers have not been read to the end
	last           instant // when the latest one started
	denied         instant // when the last denial arrived
	epoch          uint64  // answers to earlier requests say nothing of what is left
}

// ticket is what is remembered of a request until its answer.
type ticket struct {
	seq, answered uint64
	at, last      instant // when it started, and the one before it
	opened        bool    // goes first after a wait
	waited        bool    // was held back
	early         bool    // was let through earlier than told
	claim         time.Duration
	since         instant // when claim began
}

// flying returns how many requests have no answer yet.
func (f *flight) flying() int64 { return int64(f.sent - f.answered) }

// others returns how many requests may have been decided after that of tk, if its answer has just
// arrived.
func (f *flight) others(tk ticket) int64 { return int64(f.sent - tk.answered - 1) }

// ready returns the earliest instant at which c may start, if it is the next, and what it
// waits for.
func (p *pacer) ready(b *bucket, c *call, now instant) (instant, string) {
	b.advance(now)
	at, source := b.next(p, now)
	if b.account != nil {
		if a, s := b.account.admits(&c.id, now); a > at {
			return a, s
		}
	}
	return at, source
}

// next returns the instant at which b lets the next request start, now at the earliest, and what
// asks for that: the latest instant of the estimators. While a denial, a cap or the request that goes
// first holds it back, it does not matter what answers have said: more is known then.
func (b *bucket) next(p *pacer, now instant) (at instant, source string) {
	at = now
	bind := func(until instant, by string) {
		if until > at {
			at, source = until, by
		}
	}
	bind(b.denial())
	if at == now && p.maxInFlight > 0 && b.flight.busy >= p.maxInFlight {
		bind(unknown, sourceInFlight)
	}
	if at == now {
		bind(b.cap.next(), sourceLimit)
		bind(b.opening.next(b, now), sourceFirstAnswer)
	}
	if at == now {
		said, by := b.said(p, now)
		bind(b.believed(said, now, p), by)
		bind(b.learned.next(b.flight.last), sourceLearned)
	}
	return at, source
}

// denial returns when the last denials let requests start again, and what asks for that.
func (b *bucket) denial() (instant, string) {
	if at := b.backoff.next(); at > b.waits.until {
		return at, sourceBackoff
	}
	return b.waits.next()
}

// said returns when the next request goes by what answers say is left, and what says so.
func (b *bucket) said(p *pacer, now instant) (instant, string) {
	return max(b.told.next(), b.refill.next(b, p, now)), b.told.source
}

// start notes that c, which is ready, is sent.
func (p *pacer) start(b *bucket, c *call, now instant) {
	if b.account != nil {
		b.account.shared.start(&c.id, now)
	}
	if c.attempt == 1 && !c.again {
		b.budget.at(now)
		b.budget.sent++
	}
	at, _ := b.said(p, now)
	claim, nothingLeft := b.claimed(at)
	c.ticket, c.stage = b.start(now, c.waits), started
	if c.ticket.early = at > now; c.ticket.early && nothingLeft {
		c.ticket.claim, c.ticket.since = claim, at-claim
	}
	if p.limiter != nil {
		b.cap.asking++
		c.stage = asking
	}
}

// start notes that a request is sent, which is ready.
func (b *bucket) start(now instant, waited bool) ticket {
	f := &b.flight
	f.sent++
	tk := ticket{seq: f.sent, answered: f.answered, at: now, last: f.last, waited: waited}
	if f.sent == f.answered+1 {
		b.told.least = math.MaxInt64
	}
	waiting := b.queue.Size > 0
	b.learned.start(now, f.last, waiting || waited)
	f.last = now
	f.busy++
	if b.standIn {
		b.account.shared.stray(b.major, 1)
	}
	if !waiting {
		b.refill.spreadUntil = 0
	}
	o, t := &b.opening, &b.told
	switch {
	case t.empty() && o.open: // its answer takes long
		tk.opened, o.first.at = true, now
	case t.empty(): // renewed by now
		tk.opened = true
		o.open, o.first, f.epoch, t.left = true, tk, f.sent, 0
	case !o.answered && !o.open:
		o.open, o.first = true, tk
	case t.known:
		if t.left--; t.left == t.low() {
			b.spread(now)
		}
	}
	return tk
}

// cancel takes back a start: the request is not sent.
func (b *bucket) cancel(tk ticket, id *identity) {
	b.answer(tk)
	b.flight.busy--
	if b.flight.last == tk.at {
		b.flight.last = tk.last
	}
	if b.account != nil {
		b.account.shared.cancel(id, tk.at)
	}
	b.learned.count-- // which goes by the numbers of requests
	if b.told.known && !tk.opened {
		b.told.left++
	}
}

// answer notes that the answer to a request has arrived, or that there is none.
func (b *bucket) answer(tk ticket) {
	b.flight.answered++
	if b.standIn {
		b.account.shared.stray(b.major, -1)
	}
	if b.opening.open && tk.seq >= b.opening.first.seq {
		b.opening.open = false
	}
}

// observe notes an answer of b. Other buckets have strays under way that may count against it. If
// it denies, observe returns the wait and what asks for it.
func (b *bucket) observe(p *pacer, now instant, tk ticket, a *answer, strays int) (time.Duration, string) {
	learns := p.pace != Off && p.dialect == Standard
	switch {
	case a.limited:
		return b.deny(now, tk, a, learns)
	case a.counted && p.pace != Off && !b.told.doubt.ignores(&a.quota, p.maxWait):
		b.believe(tk, now, a.quota, strays)
		return 0, ""
	case learns && !b.told.counted:
		if !b.opening.answered {
			b.opening.ramp = now + patience
		}
		b.learned.observe(now, tk.seq >= b.flight.epoch, b.queue.Size > 0 || tk.waited, b.backoff.strikes)
	}
	b.allow(tk, now)
	return 0, ""
}

// deny notes a denial. It returns the wait and what asks for it.
func (b *bucket) deny(now instant, tk ticket, a *answer, learns bool) (time.Duration, string) {
	f, t, empty := &b.flight, &b.told, true
	if learns && tk.seq >= f.epoch {
		t.others.denied(t.known && t.left > 0, !b.opening.answered, a.quota.limit, f.flying())
	}
	switch {
	case a.wait > 0:
		b.waits.observe(now, a)
	case !learns || t.counted:
		b.backoff.observe(now, tk.at > f.denied, !learns, 0)
	default:
		every, known := b.learned.deny(now, tk, tk.seq < f.epoch)
		if known { // sent before the last denial was known
			at, source := b.denial()
			return max(at-now, 1), source
		}
		b.backoff.observe(now, tk.at > f.denied || every > 0, b.learned.busy(now), every)
		empty = every == 0 || b.backoff.strikes > 1 // requests go on at the pace that was learned
	}
	at, source := b.denial()
	f.denied, f.epoch = now, f.sent+1
	b.opening.answered, b.opening.open, b.opening.ramp = true, false, 0
	t.deny(at, source, empty)
	return at - now, source
}

// allow notes an answer that is no denial and says nothing of what is left.
func (b *bucket) allow(tk ticket, now instant) {
	b.opening.answered = true
	if tk.seq >= b.flight.epoch {
		b.backoff.strikes = 0
	}
	t := &b.told
	t.least = math.MinInt64
	if !t.known || now < t.renew || tk.seq < b.flight.epoch {
		return
	}
	t.known = false
	at, _ := b.denial()
	if wait := at - b.flight.denied; b.learned.every == 0 && tk.opened && b.queue.Size > 0 && wait > 0 {
		// Nothing says how fast the others may follow. They are spread over as long a
		// time as they have waited.
		over := min(max(wait, time.Second), time.Minute)
		b.refill.gap, b.refill.spreadUntil = over/time.Duration(b.queue.Size+1), now+over
	}
}

// free returns when the bucket no longer holds anything back: the bucket that is
// free first is forgotten first.
func (b *bucket) free() instant {
	at, _ := b.denial()
	if at = max(at, b.cap.until); b.shared != nil {
		at = max(at, b.shared.invalid.next())
	}
	if b.told.known && b.told.left <= b.told.low() {
		at = max(at, b.told.renew)
	}
	return at
}

// inUse reports whether requests wait or are under way, or other buckets need b.
func (b *bucket) inUse() bool {
	return b.queue.Size > 0 || b.flight.flying() > 0 || b.flight.busy > 0 ||
		b.shared != nil && b.shared.children > 0
}
