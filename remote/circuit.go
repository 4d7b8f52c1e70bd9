package remote

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// status is what a breaker says of its circuit. It is never changed.
type status struct {
	state  gobreaker.State // closed or open; a circuit that probes is open
	since  time.Time
	opened int64
}

// Status returns "open" or "closed", since when, and how often the breaker has opened, for
// health checks and metrics. It takes no lock.
//
// It says what recent decisions have shown, and nothing about a server that none of them
// asked. Where keys are spread over several servers, the breaker stays closed while
// another server has decided well within the last minute; the log of the backend
// reports each server.
func (b *Breaker) Status() (state string, since time.Time, opened int64) {
	s := b.status.Load()
	return s.state.String(), s.since, s.opened
}

func (b *Breaker) isOpen() bool { return b.status.Load().state == gobreaker.StateOpen }

// setCircuit makes a closed circuit. It counts the decisions of the last ten seconds, or ten
// budgets if that is longer.
func (b *Breaker) setCircuit(openFor time.Duration) {
	b.status.Store(&status{state: gobreaker.StateClosed, since: time.Now()})
	tenth := max(time.Second, b.budget)
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   1, // probes
		Interval:      10 * tenth,
		BucketPeriod:  tenth,
		Timeout:       openFor,
		IsExcluded:    func(err error) bool { return err == errUncounted },
		IsSuccessful:  b.hasDecided,
		ReadyToTrip:   b.keepsFailing,
		OnStateChange: b.change,
	})
}

// hasDecided reports whether the backend has decided. The circuit holds its lock while it calls
// hasDecided, keepsFailing and change.
func (b *Breaker) hasDecided(err error) bool {
	b.latest = err
	b.log.decided(err, max(time.Second, b.budget))
	return err == nil
}

// keepsFailing reports whether to open after a failure, which c includes. Failures must go on
// for a while: one slow command delays every call under way, and these fail together.
func (b *Breaker) keepsFailing(c gobreaker.Counts) bool {
	now := time.Now()
	if c.ConsecutiveFailures == 1 {
		b.rowSince = now
	}
	if c.TotalFailures == 1 {
		b.failingSince = now
	}
	return c.ConsecutiveFailures >= 5 && now.Sub(b.rowSince) >= 4*b.budget ||
		c.TotalFailures >= max(10, c.TotalSuccesses) && now.Sub(b.failingSince) >= 20*b.budget
}

// change publishes and logs a new state.
func (b *Breaker) change(_ string, _, to gobreaker.State) {
	was := b.status.Load()
	if to == gobreaker.StateHalfOpen || to == was.state {
		return // a probe, or one that failed
	}
	is := &status{to, time.Now(), was.opened}
	if to == gobreaker.StateOpen {
		is.opened++
	}
	b.status.Store(is)
	b.log.changed(to, b.latest, is.since.Sub(was.since))
}
