package conform

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// trial is one check at work.
type trial struct {
	ctx     context.Context
	profile *Profile
	host    host
	server  instance
	random  *rand.Rand // for one goroutine

	prefix       string        // of its keys
	firstAddress uint64        // of its own: the number after 127 or 10
	clients      atomic.Uint64 // that it has made
	sent         atomic.Int64  // requests
	late         atomic.Int64  // requests of which no answer came in time
	memoryKeys   int           // of each half of the check of memory
	clock        *clock        // of the server
}

const (
	addresses        = 1<<24 - 2 // of a network, without its first and its last
	addressesOfCheck = 1 << 18   // that a check has of its own
)

// newTrial returns a trial of a check. Its random numbers are those of the seed and the check.
func newTrial(ctx context.Context, check string, r *runner) *trial {
	name := fnv.New64a()
	io.WriteString(name, check)
	// Any address of the network may be the first.
	first := rand.New(rand.NewPCG(r.keys, 0)).Uint64N(addresses) + uint64(indexOf(check)+1)*addressesOfCheck
	return &trial{
		ctx: ctx, profile: r.profile, host: r.host, server: r.server,
		clock:        &r.clock,
		random:       rand.New(rand.NewPCG(r.options.Seed, name.Sum64())),
		prefix:       fmt.Sprintf("conform-%x-%s-", r.keys, check),
		firstAddress: first,
		memoryKeys:   cmp.Or(r.options.memoryKeys, memoryKeys),
	}
}

// client is a sender that a server tells from others.
type client struct {
	trial   *trial
	server  instance
	key     string     // the value of the field that has the key; "": none
	address netip.Addr // from which it connects; the zero one: any
}

// client returns one that the server has not seen. If the server has one limit for all, it waits
// until nothing of earlier requests counts.
func (t *trial) client() *client {
	if !t.profile.manyKeys() {
		t.sleep(2*t.profile.period() + t.profile.drain() + 100*time.Millisecond)
		return &client{trial: t, server: t.server}
	}
	n := t.clients.Add(1)
	switch t.profile.Key.From {
	case FromAddress:
		return &client{trial: t, server: t.server, address: addressIn(127, t.firstAddress+n)}
	case FromForwarded:
		return t.named(addressIn(10, t.firstAddress+n).String())
	}
	return t.named(fmt.Sprintf("%s%d", t.prefix, n))
}

// named returns a client with a key of its own choice, for a key that is in a field.
func (t *trial) named(key string) *client { return &client{trial: t, server: t.server, key: key} }

// addressIn returns address n of a network such as 127.0.0.0/8, whose first byte is network.
func addressIn(network byte, n uint64) netip.Addr {
	n = n%addresses + 1
	return netip.AddrFrom4([4]byte{network, byte(n >> 16), byte(n >> 8), byte(n)})
}

// draw draws a time shorter than d.
func (t *trial) draw(d time.Duration) time.Duration {
	return time.Duration(t.random.Int64N(int64(max(d, 1))))
}

// phases draws n instants within a period.
func (t *trial) phases(n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = t.draw(t.profile.period())
	}
	return all
}

// sleep waits unless the run ends.
func (t *trial) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// sleepUntil waits for an instant.
func (t *trial) sleepUntil(at time.Time) { t.sleep(time.Until(at)) }

// nextTurn returns when windows that follow the clock turn next, at least so long from now.
func (t *trial) nextTurn(least time.Duration) time.Time {
	period := t.profile.period()
	at := time.Now().Add(least)
	return at.Add(period - time.Duration(at.UnixNano()%int64(period)))
}

// afterTurn waits until a window that follows the clock has begun, if they do and less than d is left
// of this one.
func (t *trial) afterTurn(d time.Duration) {
	if !t.aligned() {
		return
	}
	turn := t.nextTurn(0)
	if time.Until(turn) >= d {
		turn = turn.Add(-t.profile.period()) // the last one, and not just now
	}
	t.sleepUntil(turn.Add(2 * clockGrain))
}

// clockDiffers reports whether the clock of the server surely is another than ours.
func (t *trial) clockDiffers() bool {
	_, _, differs := t.clock.ahead()
	return differs
}

// earliest returns when a client that has read what m tells may come. If that is an instant of another clock, ok is
// false unless something is known of that clock.
func (t *trial) earliest(m moment, read time.Time) (at time.Time, ok bool) {
	at = m.earliest(read)
	least, known, differs := t.clock.ahead()
	switch {
	case !m.byClock(), t.profile.isLocal() && !differs:
		return at, true
	case !known:
		return at, false
	}
	return at.Add(-least), true
}

// aligned reports whether windows turn with the clock of this machine.
func (t *trial) aligned() bool {
	return t.profile.turnsByClock() && t.profile.isLocal() && !t.clockDiffers()
}

// knowsTurns reports whether it is known when all of a limit comes back. If it is not, windows may turn at
// any time, and a check has to see a thing several times.
func (t *trial) knowsTurns() bool {
	return t.profile.Named && (!t.profile.turnsByClock() || t.aligned())
}

// mayTurn reports whether a window may have turned while a key that was fresh was used, so that a count says
// nothing. Unless it is known when windows turn, the time in which one may is kept so short that none turns
// each time.
func (t *trial) mayTurn(answers []exchange) bool {
	p, over := t.profile, took(answers)
	switch {
	case !t.knowsTurns():
		return over > p.period()/20
	case p.turnsByClock():
		from, to := ends(answers)
		return p.turns(from, to)
	}
	return over > p.period()/3 // it began with the first request
}

// mayFree reports whether a unit of a key may have come back between two instants. history is all that was sent
// with the key.
func (t *trial) mayFree(history []exchange, from, to time.Time) bool {
	p, over := t.profile, to.Sub(from)
	switch {
	case p.refill(10*over) > 0: // one in ten is no accident
		return true
	case p.Named && !p.isSteady():
		return false
	case p.turnsByClock() && t.aligned():
		return p.turns(from, to)
	case !t.knowsTurns() && over > p.period()/20:
		return true
	}
	for i := range history {
		x := &history[i]
		earliest, latest := x.sent.Add(p.period()-clockGrain), x.answered.Add(p.period()+clockGrain)
		if x.admitted() && !latest.Before(from) && !earliest.After(to) {
			return true
		}
	}
	return false
}

// mayBeEarly reports whether a request may have been sent before an instant that the server told, by
// its own clock.
func (t *trial) mayBeEarly(told moment, sent time.Time) bool {
	at, ok := t.earliest(told, sent)
	return !ok || sent.Before(at)
}

// shown returns what tells c from others, for a report.
func (c *client) shown() string {
	if c.address.IsValid() {
		return c.address.String()
	}
	return strings.TrimPrefix(c.key, c.trial.prefix)
}

// request is what a client sends beside its key.
type request struct {
	method string // "": GET
	http2  bool
	header http.Header // replaces that of the client, if set
}

// get sends a GET.
func (c *client) get() exchange { return c.do(request{}) }

// do sends a request and reads the answer.
func (c *client) do(q request) exchange {
	x := exchange{denial: c.trial.profile.Denied}
	ctx, cancel := context.WithTimeout(c.trial.ctx, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodGet), c.server.url(), nil)
	if err != nil {
		x.err = err
		return x
	}
	r.Header.Set("User-Agent", "weir-conform")
	for name, values := range c.trial.profile.Send {
		r.Header[name] = values
	}
	r.Host = c.trial.profile.Send.Get("Host")
	if field := c.trial.profile.Key.Field; field != "" && c.key != "" {
		r.Header.Set(field, c.key)
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	c.trial.sent.Add(1)
	x.sent = time.Now()
	answer, err := c.server.from(c.address, q.http2).RoundTrip(r)
	x.answered = time.Now()
	if err != nil {
		if x.err = err; x.late() {
			c.trial.late.Add(1)
		}
		return x
	}
	// The rest of a body that is longer is left, and costs the connection.
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	answer.Body.Close()
	x.status, x.header = answer.StatusCode, answer.Header
	c.trial.clock.read(&x)
	return x
}

// row sends n requests one after the other.
func (c *client) row(n int) (answers []exchange) {
	for range n {
		if c.trial.ctx.Err() != nil {
			break
		}
		answers = append(answers, c.get())
	}
	return answers
}

// burst sends n requests at once.
func (c *client) burst(n int) []exchange { return atOnce(n, func(int) *client { return c }) }

// atOnce sends n requests at once, each by a client.
func atOnce(n int, by func(i int) *client) []exchange {
	answers := make([]exchange, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = by(i).get() })
	}
	all.Wait()
	return answers
}

// exhaust sends requests one after the other until one is denied, and returns all. It gives up after
// three times the burst, and after a time in which all of the limit has come back several times.
func (c *client) exhaust() (answers []exchange, denied bool) {
	p := c.trial.profile
	end := time.Now().Add(4*p.period() + p.drain())
	for i := range 3*p.burst() + 3 {
		if i > 0 && time.Now().After(end) {
			break
		}
		x := c.get()
		if answers = append(answers, x); x.denied() {
			return answers, true
		}
		if x.failed() {
			return answers, false
		}
	}
	return answers, false
}

// each calls do with n new clients, at once if the server has many keys.
func (t *trial) each(n int, do func(i int, c *client)) {
	if !t.profile.manyKeys() {
		for i := range n {
			do(i, t.client())
		}
		return
	}
	var all sync.WaitGroup
	for i := range n {
		c := t.client()
		all.Go(func() { do(i, c) })
	}
	all.Wait()
}

// undeniable returns the outcome of a check for which a limiter denied nothing.
func (t *trial) undeniable(answers []exchange) outcome {
	n, p := count(answers), t.profile
	if n.failed > 0 {
		return fails("after %d admitted requests one is %s, which is neither admitted nor denied with status %d",
			n.admitted, &answers[len(answers)-1], p.Denied).with(failures(answers)...)
	}
	// As many may be admitted if windows turn.
	most := p.burst() + p.units() + int(int64(took(answers))*int64(p.units())/int64(p.period()))
	if n.admitted <= most {
		return skips("%d requests in a row took %s, too slow to be denied", n.admitted, seconds(took(answers)))
	}
	return fails("%d requests in a row are admitted within %s, and none is denied", n.admitted,
		seconds(took(answers)))
}
