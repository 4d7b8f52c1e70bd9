package conform

import (
	"fmt"
	"sync"
	"time"
)

const (
	manyArrivals = 10_000
	arrivalsKey  = 20 // of one key
	arrivalsTime = 15 * time.Second
	inFlight     = 8 // of the check, so that answers are not late because of it

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
	keys, each := manyArrivals/arrivalsKey, arrivalsKey
	if !p.manyKeys() {
		keys, each = 1, manyArrivals
	}
	gaps := make([][]time.Duration, keys)
	for i := range gaps {
		gaps[i] = make([]time.Duration, min(each, 500))
		for j := range gaps[i] {
			gaps[i][j] = drawGap(t, j == 0)
		}
	}
	answers := make([][]exchange, keys)
	slots := make(chan struct{}, inFlight)
	end := time.Now().Add(arrivalsTime)
	t.each(keys, func(i int, c *client) {
		for j := 0; j < each && time.Now().Before(end) && t.ctx.Err() == nil; j++ {
			t.sleep(gaps[i][j%len(gaps[i])])
			slots <- struct{}{}
			answers[i] = append(answers[i], c.get())
			<-slots
		}
	})
	var (
		mu      sync.Mutex
		sent    int
		judged  int
		failed  int
		found   *difference
		history []exchange
		wrong   int
	)
	var all sync.WaitGroup
	parts := make(chan []exchange)
	for range 2 {
		all.Go(func() {
			for one := range parts {
				d, n, err := differ(p.Limit, one)
				mu.Lock()
				sent, judged, failed = sent+len(one), judged+n, failed+count(one).failed
				if err == nil && d != nil {
					wrong++
					if found == nil || d.at < found.at {
						found, history = d, one[:d.at+1]
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, one := range answers {
		parts <- one
	}
	close(parts)
	all.Wait()
	switch {
	case found != nil:
		return fails("the %s request on a key is %s; %d of %d keys have an answer that differs from %v",
			ordinal(found.at+1), found.text, wrong, keys, p.Limit).with(story(history, p.units()+4)...)
	case failed > sent/100:
		return fails("%d of %d requests are neither admitted nor denied", failed, sent)
	case judged < sent/2 || judged == 0:
		return skips("only %d of %d answers were quick enough to be judged", judged, sent)
	}
	return holds("%d random requests on %d keys are answered as by %v", judged, keys, p.Limit)
}

// drawGap draws the time before a request: most come in bursts, some at the pace of the limit, a few
// after a pause.
func drawGap(t *trial, first bool) time.Duration {
	period := t.profile.period()
	draw := func(d time.Duration) time.Duration {
		return leastGap + time.Duration(t.random.Int64N(int64(max(d, 1))))
	}
	switch n := t.random.IntN(100); {
	case first:
		return draw(period)
	case n < 60:
		return draw(10 * time.Millisecond)
	case n < 85:
		return draw(2 * period / time.Duration(t.profile.units()))
	}
	return draw(3 * period / 2)
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
