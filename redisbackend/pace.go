package redisbackend

import "time"

// While calls are under way others gather, and go together: the fewer calls, the more
// a call decides, and the less a decision costs. So there are just so many calls that
// one ends every callEvery, which is how long a request then waits for its turn.
const (
	callEvery = 100 * time.Microsecond

	// scriptTime is what a script takes for each key, about.
	scriptTime = 5 * time.Microsecond

	// fastestFor is how long the fastest call tells how far away a server is.
	fastestFor = time.Second

	// stuckAfter is after how much silence one call more may be made: a connection
	// may have broken, and nobody is to wait behind it.
	stuckAfter = 2 * time.Millisecond
)

// allowedLocked returns how many calls may be under way. A client that hides how many
// connections it has, such as an auto-pipeliner, gathers calls by itself.
func (l *lane) allowedLocked(now time.Time) int {
	if l.fastest == 0 || l.failures > 0 || l.weight >= maxWeight || l.most == hiddenCalls {
		return l.most
	}
	n := 1 + l.fastest/callEvery
	if l.calls > 0 {
		n += now.Sub(l.quietSince) / stuckAfter
	}
	return min(int(n), l.most)
}

// noteLocked notes what a call of some weight took that the server has answered,
// without the time of the script.
func (l *lane) noteLocked(now time.Time, took time.Duration, weight int) {
	took -= time.Duration(weight) * scriptTime
	if l.fastest == 0 || took < l.fastest || now.Sub(l.fastestAt) > fastestFor {
		l.fastest, l.fastestAt = max(took, 1), now
	}
}

// yieldsLocked reports whether a worker should let others run before it collects what
// waits: they have just been answered, and may ask again. Where goroutines wait for
// their turn anyway it would be the last of them.
func (l *lane) yieldsLocked(now time.Time) bool {
	return l.weight < maxWeight/2 && l.late.within(now, 2*slice) == 0
}

// watchLocked has another call made for those that wait, at once if they fill it, or
// if none ends.
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

// startLocked has a worker make a call for those that wait.
func (l *lane) startLocked(now time.Time) {
	w := l.workers.Get().(*worker)
	l.collectLocked(w)
	w.bound = l.contextLocked(now)
	w.since = now
	go w.run()
}
