package conform

import (
	"math"
	"time"
)

// manyAtOnce is how many requests come at once.
const manyAtOnce = 64

// checkBurst sends 64 requests at once on a fresh key, three times.
func checkBurst(t *trial) outcome {
	return judgeBursts(t, "requests at once", func() func(int) *client {
		c := t.client()
		return func(int) *client { return c }
	})
}

// judgeBursts sends requests at once on a fresh key, three times, and compares how many are admitted with the
// burst of the limit. fresh returns who sends each request of one time, what the name of the requests in a
// report.
func judgeBursts(t *trial, what string, fresh func() func(i int) *client) outcome {
	p := t.profile
	n := max(manyAtOnce, 2*p.burst())
	least, most := math.MaxInt, 0
	for range 3 {
		by := fresh()
		t.afterTurn(p.period() / 2)
		answers := atOnce(n, by)
		got, over := count(answers), took(answers)
		upper := p.burst() + p.refill(over)
		switch {
		case got.failed > 0:
			return fails("of %d %s %d are neither admitted nor denied with status %d", n, what, got.failed,
				p.Denied).with(failures(answers)...)
		case got.admitted < p.burst():
			return fails("of %d %s on a fresh key %d are admitted, and not %d", n, what, got.admitted, p.burst())
		case got.admitted > upper && t.mayTurn(answers):
			return skips("%d %s took %s, so a window may have turned meanwhile", n, what, seconds(over))
		case got.admitted > 2*upper || t.knowsTurns() && !p.traits().Fades && got.admitted > upper:
			return fails("of %d %s on a fresh key %d are admitted within %s, and not %d", n, what, got.admitted,
				seconds(over), upper)
		}
		most = max(most, got.admitted-p.refill(over))
		least = min(least, got.admitted)
	}
	switch {
	case most > p.burst() && least > p.burst():
		return fails("of %d %s on a fresh key %d or more are admitted, three times, and not %d", n, what, least,
			p.burst())
	case most > p.burst():
		return bound("of %d %s on a fresh key %d are admitted, and %d once: a window may turn meanwhile", n, what,
			least, most)
	}
	return holds("of %d %s on a fresh key %d are admitted, three times", n, what, least)
}

// ceiling returns the most that the promised limit admits in an interval of its period.
func ceiling(t *trial) (most int, why string) {
	p := t.profile
	switch {
	case !p.Named:
		return 2 * p.units(), "twice the limit, which windows admit around a turn"
	case p.isBucket():
		return p.burst() + p.units(), "the burst and what comes back in a period"
	case p.traits().Lists:
		return p.units(), "the limit"
	}
	return 2 * p.units(), "twice the limit, as of every window that counts like this"
}

// slack is how much shorter than the period an interval is in which requests are counted: servers
// read clocks of milliseconds, and timers are late.
const slack = 10 * time.Millisecond

// checkInterval looks for the interval of a period with the most admitted requests, by four kinds
// of client, each three times.
func checkInterval(t *trial) outcome {
	kinds := []struct {
		name string
		send func(t *trial, c *client) []exchange
	}{
		{"a client that waits for the clock to turn", aroundTheTurn},
		{"a client that waits for the end of its own window", aroundItsWindow},
		{"a client that never waits", withoutPause},
		{"a client that rests three times in a period", withRests},
	}
	n := 3 * len(kinds)
	answers, phases := make([][]exchange, n), t.phases(n)
	t.each(n, func(i int, c *client) {
		t.sleep(phases[i])
		answers[i] = kinds[i%len(kinds)].send(t, c)
	})
	most, best, length := 0, 0, time.Duration(0)
	for i := range answers {
		if got := count(answers[i]); got.failed > 0 {
			return fails("%d of %d requests are neither admitted nor denied", got.failed,
				len(answers[i])).with(failures(answers[i])...)
		}
		if m, l := mostWithin(t.profile.period()-slack, answers[i]); m > most {
			most, best, length = m, i, l
		}
	}
	who := kinds[best%len(kinds)].name
	promised, why := ceiling(t)
	switch {
	case most > promised:
		return fails("%s has %d admitted within %s, and the most of such a limit is %d, %s", who, most,
			seconds(length), promised, why).with(story(answers[best], 12)...)
	case most > t.profile.units():
		return bound("at most %d in a period, %s; %s has %d admitted within %s", promised, why, who, most,
			seconds(length))
	}
	return holds("no interval of %v has more than %d admitted, for clients of four kinds", t.profile.period(),
		most)
}

// aroundTheTurn sends all it can just before windows by the clock turn, and just after, and then
// steadily.
func aroundTheTurn(t *trial, c *client) []exchange {
	turn := t.nextTurn(100 * time.Millisecond)
	t.sleepUntil(turn.Add(-60 * time.Millisecond))
	answers := c.burst(t.profile.burst() + 2)
	t.sleepUntil(turn.Add(4 * clockGrain))
	answers = append(answers, c.burst(t.profile.burst()+2)...)
	return append(answers, steadily(t, c, turn.Add(t.profile.period()))...)
}

// aroundItsWindow sends one request, all it can just before a window that began with it ends, and all
// it can after.
func aroundItsWindow(t *trial, c *client) []exchange {
	answers := []exchange{c.get()}
	first, last := answers[0].sent.Add(t.profile.period()), answers[0].answered.Add(t.profile.period())
	t.sleepUntil(first.Add(-60 * time.Millisecond))
	answers = append(answers, c.burst(t.profile.burst()+2)...)
	t.sleepUntil(last.Add(4 * clockGrain))
	answers = append(answers, c.burst(t.profile.burst()+2)...)
	return append(answers, steadily(t, c, last.Add(t.profile.period()/2))...)
}

// withoutPause sends all it can, and then steadily for a period.
func withoutPause(t *trial, c *client) []exchange {
	start := time.Now()
	return append(c.burst(t.profile.burst()+2), steadily(t, c, start.Add(t.profile.period()))...)
}

// withRests sends all it can, four times in a period. A limiter that forgets a key too early lets it.
func withRests(t *trial, c *client) (answers []exchange) {
	start := time.Now()
	for i := range 4 {
		t.sleepUntil(start.Add(time.Duration(i) * t.profile.period() * 3 / 10))
		answers = append(answers, c.burst(t.profile.burst()+2)...)
	}
	return answers
}

// steadily sends twice as many requests as a period has units, evenly, until an instant.
func steadily(t *trial, c *client, until time.Time) (answers []exchange) {
	gap := max(t.profile.period()/time.Duration(2*t.profile.units()), 10*time.Millisecond)
	for t.ctx.Err() == nil && time.Now().Before(until) {
		t.sleep(gap)
		answers = append(answers, c.get())
	}
	return answers
}
