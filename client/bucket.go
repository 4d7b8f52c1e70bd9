package client

import (
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// bucket is what a pacer knows of one limit. The lock of the pacer guards it.
//
// Five estimators learn from answers: waits, backoff, told, learned and tokens. Each knows an
// instant before which nothing starts. bucket.next combines them: the latest binds.
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
	told    told    // what is left of the limit, by answers, and how that is spread
	learned learned // the pace of a server that tells nothing
	tokens  *tokens // what is left of limits of tokens; nil: the dialect has none

	restart restart // of the server: refused connections
	cap     gate    // keeps calls from asking Options.Limit in vain
	budget  budget  // of repetitions
	pause   pause   // as told to Options.Observe
}

// opinion is when a bucket lets a request start, as asked at one instant.
type opinion struct {
	at     instant // that instant at the earliest; unknown: depends on an answer
	source string  // what asks for that; "": nothing does

	// What answers tell, if nothing else holds the bucket back.
	early bool          // told asks for later, and is doubted: the request tests it
	claim time.Duration // if early and told has nothing left: the wait that the request tests
	since instant       // when claim began
}

// next returns when b lets a request start if it is the next: one of an identity, with a cost.
func (b *bucket) next(o *Options, id *identity, cost *spend, now instant) opinion {
	b.told.advance(&b.flight, b.queue.Size, now)
	n := b.ready(o, cost, now)
	if a := b.account; a != nil { // admits the request, too
		at, source := a.denial()
		if at > n.at {
			n = opinion{at: at, source: source}
		}
		at, source = a.common.next(id, a.opening.answered, a.flight.deniedAt)
		if at > n.at {
			n = opinion{at: at, source: source}
		}
	}
	return n
}

// ready is next without the account. It asks told, tokens and learned only if nothing else holds b
// back: while something does, answers may still change what they say.
func (b *bucket) ready(o *Options, cost *spend, now instant) opinion {
	if at, source := b.denial(); at > now {
		return opinion{at: at, source: source}
	}
	if o.MaxInFlight > 0 && b.flight.busy >= o.MaxInFlight {
		return opinion{at: unknown, source: sourceInFlight}
	}
	n, t := opinion{at: now}, &b.told
	n.bind(b.cap.next(), sourceLimit)
	empty := t.empty()
	atServer := empty && !t.exact && !t.whole && b.flight.flying() > b.cap.asking
	n.bind(b.opening.next(&b.flight, empty, atServer, t.window, now), sourceFirstAnswer)
	if n.at > now {
		return n
	}
	at, source := t.next(&b.flight, b.queue.Size, o, now), t.source
	if b.tokens != nil {
		if until, by := b.tokens.next(cost, now); until > at {
			at, source = until, by
		}
	}
	if at > now {
		wait, nothingLeft := t.claimed(at, &b.flight)
		if n.early = true; nothingLeft {
			n.claim, n.since = wait, at-wait
		}
		n.bind(t.doubt.believed(at, now, wait, nothingLeft, o), source)
	}
	n.bind(b.learned.next(b.flight.last), sourceLearned)
	return n
}

// bind makes n later.
func (n *opinion) bind(until instant, by string) {
	if until > n.at {
		n.at, n.source = until, by
	}
}

// denial returns when the last denials let requests start again, and what asks for that.
func (b *bucket) denial() (instant, string) {
	if b.backoff.until > b.waits.until {
		return b.backoff.until, sourceBackoff
	}
	return b.waits.until, b.waits.source
}

// start notes that a request is sent which b has let start, and returns its ticket.
func (b *bucket) start(
	n opinion, id *identity, cost *spend, now instant, heldBack bool) ticket {
	if b.account != nil {
		b.account.common.start(id, now)
	}
	f, othersWait := &b.flight, b.queue.Size > 0
	f.sent++
	tk := ticket{
		seq: f.sent, answered: f.answered, at: now, last: f.last, heldBack: heldBack,
		early: n.early, claim: n.claim, since: n.since,
	}
	if b.tokens != nil {
		tk.tokens = b.tokens.start(cost, now)
	}
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
		b.told.refill.spreadUntil = 0
	}
	o, t := &b.opening, &b.told
	switch {
	case t.empty():
		b.probe(&tk, now)
	case t.known:
		t.start(b.queue.Size, now)
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
	case a.hopeless():
		b.opening.answered = true
	case a.limited:
		return b.deny(now, tk, a, learnsPace)
	case a.counted && o.Pace != Off && !b.told.doubt.ignores(&a.quota, o.MaxWait):
		b.believe(tk, now, &a.quota, strays, learnsPace)
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
	if learnsPace && !tk.outdated && !a.another {
		t.others.deny(t.known && t.left > 0, !b.opening.answered, a.quota.Limit, f.flying())
	}
	isNewStrike := tk.at > f.deniedAt // was not in flight at the last denial
	oneGoesFirst := true              // after the wait; false: all go on at the learned pace
	switch {
	case a.wait > 0:
		b.waits.observe(now, a)
	case !learnsPace || t.counted && !a.another: // there is no pace to go on at
		b.backoff.observe(now, isNewStrike, !learnsPace, 0)
	default:
		every, old := b.learned.deny(now, tk)
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
	if a.another { // told stays as it is
		b.opening.answered = !oneGoesFirst
		return at - now, source
	}
	t.deny(at, source, oneGoesFirst)
	return at - now, source
}

// believe learns from what an allowed answer tells. A limit that answers do not tell may have
// denied before: its pace is learned, too.
func (b *bucket) believe(tk ticket, now instant, told *quota.Rest, strays int, learnsPace bool) {
	q := *told
	t := &b.told
	b.opening.answered = true
	if q.Date != 0 {
		q.Window -= t.elapsed(q.Date, now)
	}
	if tk.outdated {
		return
	}
	if !t.counted {
		b.learned = learned{}
	}
	switch {
	case !learnsPace:
	case b.learned.seq == 0: // nothing was denied
		b.learned.recent.add(now)
	default:
		waiting := b.queue.Size > 0 || tk.heldBack
		b.learned.observe(now, true, waiting, b.backoff.strikes)
	}
	b.backoff.strikes, b.opening.ramp = 0, 0
	t.observe(tk, now, &q, &b.flight, b.queue.Size, strays)
}

// learnPace learns the pace of a server that tells nothing from an allowed answer.
func (b *bucket) learnPace(tk *ticket, now instant) {
	if !b.opening.answered { // few requests start until more answers have arrived
		b.opening.ramp = now + patience
	}
	waiting := b.queue.Size > 0 || tk.heldBack
	b.learned.observe(now, !tk.outdated, waiting, b.backoff.strikes)
}

// allow learns from an allowed answer that does not tell what is left, or is not believed.
func (b *bucket) allow(tk ticket, now instant) {
	b.opening.answered = true
	if !tk.outdated {
		b.backoff.strikes = 0
	}
	t := &b.told
	t.spoilLeast()
	if !t.known || now < t.renew || tk.outdated {
		return
	}
	t.known = false // the answer shows that there is more
	at, _ := b.denial()
	wait := at - b.flight.deniedAt
	if b.learned.every == 0 && tk.probes && b.queue.Size > 0 && wait > 0 {
		// Nothing tells how fast the others may follow. They spread over as much time as the wait, a
		// second to a minute.
		over := min(max(wait, time.Second), time.Minute)
		b.told.refill.gap, b.told.refill.spreadUntil = over/time.Duration(b.queue.Size+1), now+over
	}
}

// refuse notes a refused connection. It forgets what the server has told, and holds the bucket
// back: see restart. It returns that wait, or 0 if the server has never answered or has refused for
// too long.
func (b *bucket) refuse(tk ticket, now instant) time.Duration {
	if b.restart.since == 0 {
		if !b.opening.answered {
			return 0
		}
		b.reset()
	}
	wait, over := b.restart.refuse(tk, now)
	if over {
		return 0
	}
	if wait > 0 {
		b.waits = waits{now + wait, sourceRefused}
	}
	return max(b.waits.until-now, 1)
}

// reset makes a bucket as new, except for requests in flight and the caps of the program.
func (b *bucket) reset() {
	b.flight.outdateAll()
	b.opening, b.waits, b.backoff = opening{took: b.opening.took}, waits{}, backoff{}
	b.told, b.learned = told{}, learned{}
}

// forgive forgets denials that were about one path.
func (b *bucket) forgive() {
	b.backoff, b.learned = backoff{}, learned{}
	b.flight.outdateAll()
	if !b.told.counted {
		b.told = told{}
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
