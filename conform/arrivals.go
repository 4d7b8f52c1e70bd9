package conform

import (
	"fmt"
	"slices"
	"time"
)

const (
	mostArrivals  = 10_000
	arrivalsOfKey = 20 // at least: they use up its limit several times
	arrivalsTime  = 15 * time.Second
	mostInFlight  = 8 // of the check, so that answers are not late because of it

	// leastGap is between an answer and the next request of a key, so that the instants of requests
	// are in order whatever the clock of the server.
	leastGap = 3 * clockGrain
)

// checkModel sends random requests and compares the answers with the exact limit.
func checkModel(t *trial) outcome {
	p := t.profile
	switch {
	case !p.Named:
		return skips("the profile names no algorithm, so there is no model to compare with")
	case !p.isLocal():
		return skips("the server runs elsewhere, so its clock may differ from ours")
	}
	answers := sendAtRandom(t)
	c := compare(p.Limit, answers)
	switch {
	case c.first != nil && p.traits().Aligned && t.clockDiffers():
		return skips("the clock of the server seems to be %s, and windows follow it", t.clock.difference())
	case c.first != nil:
		return fails("the %s request on a key is %s; %d of %d keys have an answer that differs from %v",
			ordinal(c.first.at+1), c.first.text, c.wrong, len(answers), p.Limit).with(story(c.history, p.units()+4)...)
	case c.failed > c.sent/100:
		return fails("%d of %d requests are neither admitted nor denied", c.failed, c.sent)
	case c.denied == 0:
		return skips("none of %d requests within %v is denied, so there is nothing to compare: it needs a limit that "+
			"requests one after the other use up", c.sent, arrivalsTime)
	case c.judged < c.sent/2:
		return skips("only %d of %d answers were quick enough to be judged", c.judged, c.sent)
	}
	return holds("%d random requests on %d keys are answered as by %v", c.judged, len(answers), p.Limit)
}

// sendAtRandom sends requests after random gaps, and returns the answers to each key.
func sendAtRandom(t *trial) [][]exchange {
	keys, each := 1, mostArrivals
	if t.profile.manyKeys() {
		each = max(arrivalsOfKey, 3*t.profile.burst())
		keys = max(mostInFlight, min(mostArrivals, possibleArrivals(t))/each)
	}
	gaps := make([][]time.Duration, keys)
	for i := range gaps {
		gaps[i] = make([]time.Duration, min(each, 500)) // they repeat
		for j := range gaps[i] {
			gaps[i][j] = drawGap(t, j == 0)
		}
	}
	answers := make([][]exchange, keys)
	slots := make(chan struct{}, mostInFlight)
	end := time.Now().Add(arrivalsTime)
	t.each(keys, func(i int, c *client) {
		for j := 0; j < each && time.Now().Before(end) && t.ctx.Err() == nil; j++ {
			t.sleep(gaps[i][j%len(gaps[i])])
			slots <- struct{}{}
			answers[i] = append(answers[i], c.get())
			<-slots
		}
	})
	return answers
}

// possibleArrivals returns how many requests the server can answer in half the time of the check.
func possibleArrivals(t *trial) int {
	var took []time.Duration
	for _, x := range t.client().row(5) {
		took = append(took, x.answered.Sub(x.sent))
	}
	slices.Sort(took)
	if len(took) == 0 { // the run was interrupted
		return 0
	}
	return mostInFlight * int(arrivalsTime/2/max(took[len(took)/2], time.Microsecond))
}

// drawGap draws the time before a request: most come in bursts, some at the pace of the limit, a few
// after a pause. They are so few that a limit is used up in between.
func drawGap(t *trial, first bool) time.Duration {
	period := t.profile.period()
	most := 3 * period / 2
	many := max(1, t.profile.burst()/arrivalsOfKey)
	switch n := t.random.IntN(85*many + 15); {
	case first:
		most = period
	case n < 60*many:
		most = 10 * time.Millisecond
	case n < 85*many:
		most = 2 * period / time.Duration(t.profile.units())
	}
	return leastGap + t.draw(most)
}

// ordinal returns n as in "the 3rd".
func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
