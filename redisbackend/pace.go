package redisbackend

import "time"

// Requests gather while calls are under way, and the next call decides them together. The
// fewer calls there are, the more each decides, and the less a decision costs. So a lane
// has just enough calls under way for one to end every callEvery, and one more, so that
// server and client work at the same time. A request waits about as long for the next call.
const (
	callEvery = 100 * time.Microsecond

	// scriptTime is about how long a script takes for each key.
	scriptTime = 5 * time.Microsecond

	// fastestFor is how long the fastest call is the measure of the distance.
	fastestFor = time.Second

	// stuckAfter is the silence after which one more call may be made: a connection may
	// be broken, and nobody should wait behind it.
	stuckAfter = 2 * time.Millisecond
)

// allowedLocked returns how many calls may be under way.
func (l *lane) allowedLocked(now time.Time) int {
	if l.fastest == 0 || l.failures > 0 || l.weight >= maxWeight {
		return l.most
	}
	n := 2 + l.fastest/callEvery
	if l.calls > 0 {
		n += now.Sub(l.quietSince) / stuckAfter
	}
	return min(int(n), l.most)
}

// noteLocked notes the duration of an answered call of some weight, less the time of the
// script.
func (l *lane) noteLocked(now time.Time, took time.Duration, weight int) {
	took -= time.Duration(weight) * scriptTime
	if l.fastest == 0 || took < l.fastest || now.Sub(l.fastestAt) > fastestFor {
		l.fastest, l.fastestAt = max(took, 1), now
	}
}

// yieldsLocked reports whether a worker should yield before it collects waiting requests:
// callers that have just been answered may ask again. If goroutines already wait to run,
// the worker would be the last of them, and should not.
func (l *lane) yieldsLocked(now time.Time) bool {
	return l.weight < maxWeight/2 && l.late.within(now, 2*slice) == 0
}

// watchLocked sees to it that waiting requests are sent: at once if they fill a call, or
// once no call has ended for stuckAfter.
func (l *lane) watchLocked() {
	if l.calls >= l.most || !l.waits() {
		return
	}
	if l.weight >= maxWeight {
		l.calls++
		l.startLocked(time.Now())
	}
	if l.watched {
		return
	}
	l.watched = true
	if l.watch == nil {
		l.watch = time.AfterFunc(stuckAfter, l.look)
		return
	}
	l.watch.Reset(stuckAfter)
}

func (l *lane) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = false
	if now := time.Now(); l.waits() && l.calls < l.allowedLocked(now) {
		l.calls++
		l.startLocked(now)
	}
	l.watchLocked()
}

// startLocked starts a call for waiting requests, on a worker.
func (l *lane) startLocked(now time.Time) {
	w := l.workers.Get().(*worker)
	l.collectLocked(w)
	w.bound = l.contextLocked(now)
	w.since = now
	go w.run()
}
