package conform

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// checkInstances starts a second server on the store, and sends to both at once.
func checkInstances(t *trial) outcome {
	if t.profile.Store == "" {
		return skips("the profile has no shared store")
	}
	second, err := t.host.start(t.ctx)
	if err != nil {
		return skips("a second server does not start: %v", err)
	}
	return judgeBursts(t, "requests to two servers at once", func() func(int) *client {
		one := t.client()
		two := *one
		two.server = second
		return func(i int) *client { return []*client{one, &two}[i%2] }
	})
}

// storeAway is how long the store is away.
const storeAway = 3 * time.Second

// checkStore ends the store and starts it again, while requests come.
func checkStore(t *trial) outcome {
	p := t.profile
	if p.Store == "" {
		return skips("the profile has no shared store")
	}
	if err := t.host.stopStore(); err != nil {
		return skips("the store does not end: %v", err)
	}
	c := t.client()
	var away []exchange
	for end := time.Now().Add(storeAway); t.ctx.Err() == nil && time.Now().Before(end); t.sleep(storeAway / 30) {
		away = append(away, c.get())
	}
	if err := t.host.startStore(t.ctx); err != nil {
		return skips("the store does not start again: %v", err)
	}
	t.late.Store(0) // what was sent without a store says nothing
	back := time.Now()
	got, slowest := count(away), time.Duration(0)
	for _, x := range away {
		slowest = max(slowest, x.answered.Sub(x.sent))
	}
	text := fmt.Sprintf("while the store is away %d of %d requests are admitted, %d denied and %d answered otherwise, "+
		"the slowest after %s", got.admitted, len(away), got.denied, got.failed, seconds(slowest))
	const patience = 15 * time.Second
	var blind time.Duration
	for t.ctx.Err() == nil && time.Since(back) < patience {
		after := time.Since(back)
		again := t.client()
		t.afterTurn(p.period() / 2)
		answers := again.burst(3*p.burst() + 3)
		n := count(answers)
		switch upper := p.burst() + p.refill(took(answers)); {
		case n.failed > 0 || n.admitted < p.burst():
		case n.admitted <= upper:
			return bound("%s; %s after it is back, %d are admitted on a fresh key", text, seconds(after), n.admitted)
		case t.mayTurn(answers):
			blind = took(answers)
		}
		t.sleep(p.period() / 4)
	}
	if blind > 0 {
		return skips("%s; after it is back, %d requests on a fresh key take %s, too long to tell", text,
			3*p.burst()+3, seconds(blind))
	}
	return fails("%s; for %v after it is back, no fresh key has %d admitted", text, patience, p.burst())
}

const (
	memoryKeys = 100_000          // of each half of the check
	warmTime   = 4 * time.Second  // with one key, so that the server has what it needs for itself
	fillTime   = 10 * time.Second // for each half of the check
)

// checkMemory sends with 100,000 keys, waits for the end of their time, and does so again.
func checkMemory(t *trial) outcome {
	p := t.profile
	if !p.manyKeys() {
		return skips("the server has one limit for all its clients")
	}
	if _, ok := t.server.memory(); !ok {
		return skips("the memory of the server is not known")
	}
	one := t.client()
	fill(t, warmTime, func() *client { return one })
	before, _ := t.server.memory()
	first, failed := fill(t, fillTime, t.client)
	after, _ := t.server.memory()
	t.sleep(2*p.period() + p.drain() + time.Second)
	rested, _ := t.server.memory()
	second, failedToo := fill(t, fillTime, t.client)
	again, _ := t.server.memory()
	if first == 0 || second == 0 || failed+failedToo > (first+second)/100 {
		return fails("%d of %d requests, each with a key of its own, are not admitted", failed+failedToo, first+second)
	}
	text := fmt.Sprintf("%s before, %s after %d keys, %s when their time is over, %s after %d others", megabytes(before),
		megabytes(after), first, megabytes(rested), megabytes(again), second)
	// Keys of the second half take the places of the first, unless these are kept.
	grown, more := after-before, again-max(after, rested)
	perKey := float64(grown) / float64(first)
	if most := int64(8 << 20); grown > most && float64(more)/float64(second) > 0.7*perKey {
		return bound("%s: %.0f bytes a key, and keys are kept after their time", text, perKey)
	}
	return bound("%s: %.0f bytes a key", text, max(perKey, 0))
}

// fill sends a request by each of many clients, as many as it can in a time.
func fill(t *trial, limit time.Duration, by func() *client) (sent, failed int) {
	const workers = 16
	var mu sync.Mutex
	next := make(chan *client)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for c := range next {
				x := c.get()
				mu.Lock()
				if sent++; !x.admitted() {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	end := time.Now().Add(limit)
	for n := 0; n < t.memoryKeys && t.ctx.Err() == nil && time.Now().Before(end); n++ {
		next <- by()
	}
	close(next)
	all.Wait()
	return sent, failed
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// checkRestart restarts the server, several times if the store does not seem to remember: a window may
// have turned.
func checkRestart(t *trial) outcome {
	var o outcome
	p, began := t.profile, time.Now()
	for i := range 4 {
		if o = restartOnce(t); o.verdict != Fails {
			return o
		}
		// Four instants a quarter of a period apart: one phase of windows does not explain all.
		phase := time.Duration(i+1) * p.period() / 4
		t.sleepUntil(began.Add(phase + (time.Since(began) - phase + p.period() - 1).Truncate(p.period())))
	}
	return o
}

// restartOnce uses up a key, starts the server anew, and sends with the key again.
func restartOnce(t *trial) outcome {
	p := t.profile
	c := t.client()
	t.afterTurn(p.period())
	answers, denied := c.exhaust()
	if !denied {
		return t.undeniable(answers)
	}
	began := time.Now()
	switch err := t.server.restart(t.ctx); {
	case errors.Is(err, errElsewhere):
		return skips("%v", err)
	case err != nil:
		return fails("the server does not start again: %v", err)
	}
	down := time.Since(began)
	again := c.burst(p.burst() + 3)
	got, over := count(again), took(append(answers, again...))
	switch {
	case got.failed > 0:
		return fails("after a restart %d requests are neither admitted nor denied", got.failed).
			with(failures(again)...)
	case p.Store == "" && got.admitted > p.burst()+p.refill(took(again)) && !t.mayTurn(again):
		return fails("after a restart of %s %d of %d requests at once are admitted, and not %d", seconds(down),
			got.admitted, len(again), p.burst())
	case p.Store == "":
		return bound("a restart takes %s, and then a key that was used up has %d admitted", seconds(down), got.admitted)
	case got.admitted <= p.refill(over)+1:
		return holds("a restart takes %s, and the store remembers", seconds(down))
	case over > p.period()/3:
		return skips("a restart takes %s, too long to tell whether the store remembers", seconds(down))
	}
	return fails("after a restart of %s a key that was used up has %d admitted: the store does not remember",
		seconds(down), got.admitted)
}
