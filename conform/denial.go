package conform

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
)

// checkStatus exhausts a key and reads the status of the denial.
func checkStatus(t *trial) outcome {
	answers, denied := t.client().exhaust()
	if !denied {
		return t.undeniable(answers)
	}
	return holds("after %d admitted requests in a row one is denied with status %d", len(answers)-1,
		t.profile.Denied)
}

// retryPhases is how many keys of different phases are denied.
const retryPhases = 6

// comeback is what became of a key that was told when to come back.
type comeback struct {
	told     moment
	wait     time.Duration // until that, after the denial
	answers  []exchange    // the last is of the client that obeyed
	earliest time.Duration // after the denial a client that does not obey was admitted; 0: it was not
	other    outcome       // if nothing can be judged by this key
}

// checkRetryAfter uses up keys at different phases, and comes back when Retry-After says.
func checkRetryAfter(t *trial) outcome {
	if !slices.Contains(t.profile.Fields, "retry-after") {
		return skips("the profile does not list retry-after")
	}
	return comeBack(t, "Retry-After", func(x *exchange) (moment, []string) {
		told, _, problems := readRetryAfter(x.header, true)
		return told.reset, problems
	})
}

// tryEvery is the gap between the requests of a client that does not obey.
const tryEvery = 50 * time.Millisecond

// comeBack checks that a request is admitted at the moment that a denial tells. Beside each client
// that obeys, one of the same phase tries all the time.
func comeBack(t *trial, field string, read func(x *exchange) (moment, []string)) outcome {
	period := t.profile.period()
	most := 4*period + 2*time.Second
	n := retryPhases
	if t.profile.manyKeys() {
		n *= 2
	}
	results, phases := make([]comeback, n), t.phases(retryPhases)
	t.each(n, func(i int, c *client) {
		r := &results[i]
		t.sleep(phases[i%retryPhases])
		answers, denied := c.exhaust()
		if r.answers = answers; !denied {
			r.other = t.undeniable(answers)
			return
		}
		last := &answers[len(answers)-1]
		var problems []string
		switch r.told, problems = read(last); {
		case len(problems) > 0:
			r.other = fails("%s", problems[0]).with(story(answers, 6)...)
			return
		case r.told.kind == notTold:
			r.other = skips("%s of a denial tells no instant", field)
			return
		}
		at, ok := t.earliest(r.told, last.answered)
		if !ok {
			r.other = skips("%s tells an instant, and the clock of the server may differ from ours", field)
			return
		}
		if r.wait = at.Sub(last.answered); r.wait > most {
			return
		}
		for i >= retryPhases && t.ctx.Err() == nil && time.Until(at) > tryEvery {
			t.sleep(tryEvery)
			if x := c.get(); x.admitted() {
				r.earliest = x.sent.Sub(last.answered)
				return
			}
		}
		for t.ctx.Err() == nil && time.Now().Before(at) {
			t.sleepUntil(at)
			at, _ = t.earliest(r.told, last.answered) // by what is known now of the clock of the server
		}
		r.answers = append(r.answers, c.get())
	})
	var longest, early time.Duration
	var unclear outcome
	for i := range results {
		r := &results[i]
		last := &r.answers[len(r.answers)-1]
		switch {
		case r.other.verdict != "":
			return r.other
		case r.wait > most:
			return bound("a denial tells a wait of %v, and the period is %v: nothing was sent so late",
				r.wait.Round(time.Second), period)
		case i < retryPhases && last.denied() && r.told.byClock() && t.mayBeEarly(r.told, last.sent):
			unclear = skips("%s tells an instant (%v), and the clock of the server seems to be %s", field, r.told,
				t.clock.difference())
		case i < retryPhases && !last.admitted():
			return fails("a client that comes back when %s says (%v) is %s", field, r.told, last).
				with(story(r.answers, 6)...)
		case r.earliest > 0:
			early = max(early, r.wait-r.earliest)
		}
		longest = max(longest, r.wait)
	}
	if unclear.verdict != "" {
		return unclear
	}
	if early > time.Second+tryEvery+100*time.Millisecond {
		return bound("%d clients that come back when %s says are admitted; one that tries all the time is up to %s "+
			"earlier", retryPhases, field, seconds(early))
	}
	return holds("%d clients that come back when %s says, after %s at most, are admitted; one that tries all the time "+
		"is up to %s earlier", retryPhases, field, seconds(longest), seconds(early))
}

// checkDenied has two clients that use up their limit at once. One goes on after its denials.
func checkDenied(t *trial) outcome {
	p := t.profile
	if !p.manyKeys() {
		return skips("it needs two keys, and the server has one")
	}
	const pairs = 3
	type pair struct {
		calm, pushing []exchange
		late          time.Duration // how long the last requests took
	}
	got := make([]pair, pairs)
	var calm []*client
	for range pairs {
		calm = append(calm, t.client())
	}
	phases := t.phases(pairs) // windows turn for one pair at a time, if it is not known when
	t.each(pairs, func(i int, pushing *client) {
		g := &got[i]
		both := func() {
			n := 2 * (p.burst() + 2)
			answers := atOnce(n, func(k int) *client { return []*client{calm[i], pushing}[k%2] })
			for k, x := range answers {
				if k%2 == 0 {
					g.calm = append(g.calm, x)
				} else {
					g.pushing = append(g.pushing, x)
				}
			}
			g.late = max(g.late, took(answers))
		}
		t.sleep(phases[i])
		t.afterTurn(p.period())
		end := time.Now().Add(p.period() * 3 / 2)
		both()
		for t.ctx.Err() == nil && time.Now().Before(end) {
			g.pushing = append(g.pushing, pushing.get())
			t.sleep(p.period() / 16)
		}
		both()
	})
	most, calmHad, pushingHad, slowest, denied := math.MinInt, 0, 0, 0, 0
	for i := range got {
		calm, pushing := count(got[i].calm), count(got[i].pushing)
		denied += pushing.denied
		if calm.failed+pushing.failed > 0 {
			return fails("%d requests are neither admitted nor denied", calm.failed+pushing.failed).
				with(failures(append(got[i].calm, got[i].pushing...))...)
		}
		// What comes back one by one may come to either first.
		tolerance := int(int64(got[i].late) * int64(p.units()) / int64(p.period()))
		if d := pushing.admitted - calm.admitted; d+tolerance > most {
			most, calmHad, pushingHad = d+tolerance, calm.admitted, pushing.admitted
		}
		slowest = max(slowest, tolerance)
	}
	if denied == 0 {
		return skips("no request of a client that goes on is denied")
	}
	counts := most < -1
	text := fmt.Sprintf("in one and a half periods a client that goes on after denials is admitted %d times, and "+
		"one that waits %d times", pushingHad, calmHad)
	switch {
	case counts && p.CountsDenied == No:
		return fails("%s, and the profile says otherwise", text)
	case !counts && p.CountsDenied == Yes && (!p.Named || p.traits().Ends):
		return bound("%s: if denied requests count, a window that ends forgets them", text)
	case !counts && p.CountsDenied == Yes && slowest > 0:
		return skips("%s, but the answers were too slow to tell whether denied requests count", text)
	case !counts && p.CountsDenied == Yes:
		return fails("%s, and the profile says otherwise", text)
	case counts:
		return bound("%s: denied requests count", text)
	}
	return holds("%s: denied requests do not count", text)
}

// checkHead sends HEAD with a key that GET has exhausted, and GET with one that HEAD has.
func checkHead(t *trial) outcome {
	x, o, ok := whileDenied(t, t.client(), request{method: http.MethodHead})
	switch {
	case !ok:
		return o
	case x.failed():
		if y := t.client().do(request{method: http.MethodHead}); y.failed() {
			return skips("HEAD is %s whether or not GET is denied: the page has none", &y)
		}
		return fails("HEAD is %s where GET is denied with status %d", &x, t.profile.Denied)
	case x.admitted():
		return fails("HEAD is admitted where GET is denied: it has a limit of its own, or none")
	}
	p := t.profile
	least := 1 << 30
	for range 3 {
		c := t.client()
		t.afterTurn(p.period() / 2)
		var answers []exchange
		for range p.burst() {
			answers = append(answers, c.do(request{method: http.MethodHead}))
		}
		answers = append(answers, c.burst(p.burst())...)
		over := took(answers)
		least = min(least, count(answers).admitted-p.refill(over))
		switch {
		case least > p.burst() && t.mayTurn(answers):
			return skips("%d requests took %s, too long to tell", len(answers), seconds(over))
		case least <= p.burst():
			return holds("HEAD counts as GET does, and is denied with status %d", p.Denied)
		}
	}
	return fails("after %d HEADs another %d GETs are admitted: HEAD does not count", p.burst(), least-p.burst())
}

// checkOptions sends OPTIONS with a key that GET has exhausted.
func checkOptions(t *trial) outcome {
	x, o, ok := whileDenied(t, t.client(), request{method: http.MethodOptions})
	switch {
	case !ok:
		return o
	case x.denied():
		return holds("OPTIONS is denied where GET is")
	}
	return bound("OPTIONS is %s where GET is denied: a server must do no work for it", &x)
}

// checkHTTP2 sends a request by HTTP/2 with a key that HTTP/1.1 has exhausted.
func checkHTTP2(t *trial) outcome {
	if t.profile.Key.From == FromAddress {
		return skips("the key is the address of the connection, and each protocol has connections of its own")
	}
	if x := t.client().do(request{http2: true}); x.err != nil {
		return skips("the server speaks no HTTP/2 at %s", t.server.url())
	}
	x, o, ok := whileDenied(t, t.client(), request{http2: true})
	switch {
	case !ok:
		return o
	case !x.denied():
		return fails("a request by HTTP/2 is %s where HTTP/1.1 is denied", &x)
	}
	return holds("HTTP/2 and HTTP/1.1 count together")
}
