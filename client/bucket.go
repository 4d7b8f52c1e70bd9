package client

import (
	"math"
	"time"
)

// instant is a time since a Transport was made. The monotonic clock alone is read in
// half of the time of time.Now.
type instant = time.Duration

// unknown is the instant of what only an answer can bring about.
const unknown instant = math.MaxInt64

// Requests wait so long for the answer of the one that goes first. If it goes first because
// nothing was left, they may wait longer: a server that delays requests in a queue answers
// late, and denies those that come meanwhile.
const (
	patience     = time.Second
	mostPatience = 10 * time.Second
)

func (b *bucket) patience() time.Duration {
	if b.limited && b.left <= 0 {
		return min(max(b.window, 2*b.took, patience), mostPatience)
	}
	return patience
}

// ramp is how many requests are under way at once in the first second after the first answer,
// if that says nothing of a limit; and one more for each four answers. A server that says
// nothing would deny the others all at once.
const ramp = 20

// bucket is what a Transport knows of one limit. The Transport's lock guards it.
//
// left is a lower bound of what the server has left, as long as nobody else uses the limit:
// an answer says what was left when it was decided, and every other request that may have
// been decided since is subtracted from that.
type bucket struct {
	key     key
	name    string
	account *bucket // of a dialect that has limits for all requests of an account; or nil
	queue   queue
	standIn bool   // of Discord: no answer has named the bucket of this route
	major   string // of Discord

	sent, answered uint64
	busy           int // requests whose answers have not been read to the end

	known   bool // an answer has arrived
	probing bool // a request that goes first is under way
	probe   ticket
	took    time.Duration // the last answer that was no denial

	denied      instant // when the last denial arrived
	block       instant // nothing is sent before
	blockSource string
	lastWait    time.Duration
	strikes     int    // denials in a row that said nothing of a wait
	epoch       uint64 // answers to earlier requests say nothing of what is left

	limited     bool // the fields below are believed
	left, limit int64
	source      string
	window      time.Duration
	renew       instant // when more may be sent though nothing is left
	newest      uint64  // the latest request whose answer was believed
	least       int64   // left at least, by the answers since the bucket was last idle
	gap         time.Duration
	lastStart   instant
	spreadUntil instant // those that have waited for a limit are spread, as long as some wait
	followUntil instant // requests follow a refill
	exact       bool    // renew is that of an answer that had nothing left
	reset       bool    // renew is when everything is renewed
	refill      refill
	promise     promise
	lead        time.Duration // of the server's clock, as Unix time, over ours; at least
	counted     bool          // an answer has said what is left
	sharedUntil instant       // others use the limit, it seems
	toldAt      instant       // when the fields above were told
	doubt       doubt
	ending      ending
	release     release
	renewal     renewal
	learned     learned
	rampUntil   instant // the first requests do not go all at once

	away      instant // since when connections are refused; 0: they are not
	refusedAt instant
	refusals  int

	cap    gate
	budget budget
	pause  pause

	// Of an account alone.
	children  int            // buckets that have it
	strays    map[string]int // of Discord, by major parameter: under way in buckets that stand in
	nextWrite instant
	invalid   invalids
	sendings  sendings
	line      line
}

// ticket is what is remembered of a request until its answer.
type ticket struct {
	seq, answered uint64
	at, lastStart instant
	opened        bool // goes first after a wait
	early         bool // was let through earlier than told
	claim         time.Duration
	since         instant // when claim began
}

// ready returns the earliest instant at which c may start, if it is the next, and what it
// waits for.
func (p *pacer) ready(b *bucket, c *call, now instant) (instant, string) {
	at, source := b.ready(p, now)
	if b.account != nil {
		if a, s := b.account.admits(&c.id, now); a > at {
			return a, s
		}
	}
	return at, source
}

// start notes that c, which is ready, is sent.
func (p *pacer) start(b *bucket, c *call, now instant) {
	if b.account != nil && c.id.writes {
		b.account.nextWrite = now + writeSpacing
	}
	if b.account != nil && !c.id.free {
		b.account.sendings.start(now)
	}
	if c.attempt == 1 && !c.again {
		b.budget.at(now)
		b.budget.sent++
	}
	at, _, _ := b.asTold(p, now)
	claim, nothingLeft := b.claimed(at)
	c.ticket, c.stage = b.start(now), started
	if c.ticket.early = at > now; c.ticket.early && nothingLeft {
		c.ticket.claim, c.ticket.since = claim, at-claim
	}
	if p.limiter != nil {
		b.cap.asking++
		c.stage = asking
	}
}

func (b *bucket) ready(p *pacer, now instant) (instant, string) {
	if b.block > now {
		return b.block, b.blockSource
	}
	if p.maxInFlight > 0 && b.busy >= p.maxInFlight {
		return unknown, sourceInFlight
	}
	if at := b.cap.ready(now); at > now {
		return at, sourceLimit
	}
	if b.probing {
		if at := b.probe.at + b.patience(); now < at {
			return at, sourceFirstAnswer
		}
	}
	if now < b.rampUntil && b.sent-b.answered >= ramp+b.answered/4 {
		return b.rampUntil, sourceFirstAnswer
	}
	b.fulfil(now)
	if at, source, ok := b.asTold(p, now); ok {
		return b.believed(at, now, p), source
	}
	switch {
	case now < b.release.until:
		return b.lastStart + b.release.gap, b.source
	case b.learned.every > 0:
		return b.lastStart + b.learned.every, sourceLearned
	}
	return now, ""
}

// spread reports whether requests start at least gap apart.
func (b *bucket) spread(p *pacer, now instant) bool {
	if now < b.spreadUntil || now < b.followUntil {
		return true
	}
	return b.limited && (p.pace == Evenly || b.left <= b.low() && !b.alone(now) && b.paces(p.maxWait))
}

// low is how much is left when WhenLow begins. Two are the least: a reset that is
// rounded up by seconds would leave a small token bucket full, and its refill lost.
func (b *bucket) low() int64 { return max(b.limit/10, 2) }

// start notes that a request is sent, which is ready.
func (b *bucket) start(now instant) ticket {
	b.sent++
	tk := ticket{seq: b.sent, answered: b.answered, at: now, lastStart: b.lastStart}
	if b.sent == b.answered+1 {
		b.least = math.MaxInt64
	}
	b.learned.start(now, b.lastStart, b.queue.Size > 0)
	b.lastStart = now
	b.busy++
	if b.standIn {
		b.account.stray(b.major, 1)
	}
	if b.queue.Size == 0 {
		b.spreadUntil = 0
	}
	switch {
	case b.limited && b.left <= 0 && b.probing: // its answer takes long
		tk.opened, b.probe.at = true, now
	case b.limited && b.left <= 0: // renewed by now
		tk.opened = true
		b.probing, b.probe, b.epoch, b.left = true, tk, b.sent, 0
	case !b.known && !b.probing:
		b.probing, b.probe = true, tk
	case b.limited:
		if b.left--; b.left == b.low() {
			b.setGap(now)
		}
	}
	return tk
}

// cancel takes back a start: the request is not sent.
func (b *bucket) cancel(tk ticket) {
	b.answer(tk)
	b.busy--
	if b.lastStart == tk.at {
		b.lastStart = tk.lastStart
	}
	if b.account != nil {
		b.account.sendings.cancel(tk.at)
	}
	b.learned.count-- // which goes by the numbers of requests
	if b.limited && !tk.opened {
		b.left++
	}
}

// answer notes that the answer to a request has arrived, or that there is none.
func (b *bucket) answer(tk ticket) {
	b.answered++
	if b.standIn {
		b.account.stray(b.major, -1)
	}
	if b.probing && tk.seq >= b.probe.seq {
		b.probing = false
	}
}

// free returns when the bucket no longer holds anything back: the bucket that is
// free first is forgotten first.
func (b *bucket) free() instant {
	at := max(b.block, b.cap.until, b.invalid.until(b.lastStart))
	if b.limited && b.left <= b.low() {
		at = max(at, b.renew)
	}
	return at
}

// inUse reports whether requests wait or are under way, or other buckets need b.
func (b *bucket) inUse() bool {
	return b.queue.Size > 0 || b.sent != b.answered || b.busy > 0 || b.children > 0
}
