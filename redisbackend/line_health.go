package redisbackend

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// One of several servers may fail while the others work. A line then takes its server to be
// down: its requests fail at once, except for one at a time, which is the probe.

const (
	// quietFor is how long a server may leave all calls unanswered, or fail them, before
	// it is down. A distant server has roundTrips times the duration of its latest
	// answer: calls may be connecting, over TLS.
	quietFor   = 100 * time.Millisecond
	roundTrips = 8

	// quietAtFirst is the same for a server that has not answered yet.
	quietAtFirst = 500 * time.Millisecond

	// failuresInRow is how many calls in a row must fail before a server is down.
	failuresInRow = 3

	// probeFor is how long a probe prevents the next one, and how long after a failure a
	// server that has not been asked since is still taken to be down.
	probeFor = time.Second

	// maxProbes is how many probes may be under way above the limit of calls.
	maxProbes = 4

	// wellFor is how long a server counts as well after a decision if it has not been
	// asked since.
	wellFor = time.Minute
)

// errDown is the error of a request for a server that is down. It counts against the
// backend unless another server is well.
var errDown = errors.New("the server of this key does not answer, while others may")

// health is what a line knows about its server, guarded by the mutex of the line.
type health struct {
	quietSince   time.Time // with calls under way: the latest answer, or the start of the first
	answeredAt   time.Time
	answeredIn   time.Duration // the duration of that call
	failures     int           // calls that failed without an answer since then
	failingSince time.Time
	failedAt     time.Time // the latest of them
	latest       error     // failure of these
	latestReply  error     // the latest error that the server replied
	answeredFast bool      // the latest call was answered fast
	probing      bool
	probedAt     time.Time
	retriedAt    time.Time // when it was first asked again after a pause

	errorReplies      int // calls in a row that the server answered only with errors
	errorRepliesSince time.Time

	condition condition
	reported  condition
	reporting bool
	down      bool
}

// condition is the condition of a server, as logged.
type condition uint8

const (
	well condition = iota
	failing
	unreachable
)

// answers reports whether err comes from a reply of the server.
func answers(err error) bool {
	if err == nil {
		return true
	}
	var reply redis.Error // allocates, so only here
	return errors.As(err, &reply)
}

// admitLocked returns an error if a request must neither be sent nor wait. probes is true if it is to be
// sent as a probe, even above the limit of calls. Requests of the only server may wait for it: they need a
// probe only if the most calls are under way, 16 say, and none of them is answered.
func (l *line) admitLocked(now time.Time) (probes bool, err error) {
	if !l.down && !l.isDownLocked(now) {
		return false, nil
	}
	mayProbe := (!l.probing || now.Sub(l.probedAt) >= probeFor) && l.calls < l.lines.maxCalls+maxProbes
	switch {
	case l.name == "":
		mayProbe = mayProbe && l.calls >= l.lines.maxCalls
	case l.mayBeBackLocked(now):
		return false, nil
	case !mayProbe:
		return false, errDown
	}
	if mayProbe {
		l.probing, l.probedAt = true, now
	}
	return mayProbe, nil
}

// mayBeBackLocked notes that one of several servers is down, and reports whether all requests are sent all
// the same. That begins if the server has not been asked for a second after a failure, and ends when they
// have found that it is still down.
func (l *line) mayBeBackLocked(now time.Time) bool {
	if !l.down {
		l.down = true
		l.wellAt.Store(-1)
		l.reportLocked(unreachable)
	}
	if l.calls == 0 && now.Sub(l.failedAt) > probeFor {
		l.retriedAt, l.probedAt = now, now
	}
	return now.Sub(l.retriedAt) <= l.patienceLocked(now)
}

// isDownLocked reports whether the server has answered nothing for too long. The time since the latest
// failure does not count if no call has been made in it.
func (l *line) isDownLocked(now time.Time) bool {
	var quiet time.Duration
	if l.calls > 0 {
		quiet = now.Sub(l.quietSince)
	}
	if l.failures >= failuresInRow {
		quiet = max(quiet, l.failedAt.Sub(l.failingSince))
	}
	return quiet > l.lines.patience && quiet > l.patienceLocked(now)
}

func (l *line) patienceLocked(now time.Time) time.Duration {
	patience := max(l.lines.patience, roundTrips*l.answeredIn)
	if l.answeredAt.IsZero() {
		patience = max(patience, quietAtFirst)
	}
	return min(patience, max(l.lines.patience, callTimeout)) + l.lines.late.allowance(now)
}

// judgeLocked records the outcome of a call.
func (l *line) judgeLocked(now, since time.Time, answered, decided bool, failure error) {
	if decided {
		l.wellAt.Store(now.UnixNano())
	} else if failure != nil {
		l.wellAt.Store(-1)
	}
	l.answeredFast = answered && now.Sub(since) < fastAnswer
	if !answered {
		if l.failures++; l.failures == 1 {
			l.failingSince = now
		}
		l.failedAt, l.latest = now, failure
		return
	}
	l.quietSince, l.answeredAt, l.answeredIn = now, now, now.Sub(since)
	l.failures, l.latest = 0, nil
	l.down = false
	if decided {
		if l.errorReplies = 0; l.condition != well {
			l.reportLocked(well)
		}
		return
	}
	if l.errorReplies++; l.errorReplies == 1 {
		l.errorRepliesSince = now
	}
	l.latestReply = failure
	if l.errorReplies >= failuresInRow && now.Sub(l.errorRepliesSince) > quietFor {
		l.reportLocked(failing)
	}
}

// isWell reports whether the latest call of the server decided, lately.
func (l *line) isWell(now time.Time) bool {
	at := l.wellAt.Load()
	return at > 0 && now.UnixNano()-at < wellFor.Nanoseconds()
}

// reportLocked logs the condition of one of several servers, on another goroutine.
func (l *line) reportLocked(c condition) {
	if c == l.condition || l.name == "" {
		return
	}
	if l.condition = c; !l.reporting {
		l.reporting = true
		go l.report()
	}
}

func (l *line) report() {
	for {
		l.mu.Lock()
		c, err := l.condition, l.latest
		if c == l.reported {
			l.reporting = false
			l.mu.Unlock()
			return
		}
		l.reported = c
		if c == failing {
			err = l.latestReply
		}
		l.mu.Unlock()
		l.log(c, err)
	}
}

func (l *line) log(c condition, err error) {
	defer func() { _ = recover() }() // a panic of the logger cannot be logged
	logger := l.lines.logger
	if logger == nil {
		logger = slog.Default()
	}
	switch c {
	case well:
		logger.Info("weir: Redis server answers again", "server", l.name)
	case failing:
		logger.Warn("weir: Redis server replies only with errors", "server", l.name, "error", err)
	case unreachable:
		if err == nil {
			err = errors.New("no answer")
		}
		logger.Warn("weir: Redis server down", "server", l.name, "error", err)
	}
}

// The wait for a reply ends with ctx, unless this process runs late: if it has more goroutines to run than
// time, it does not read its replies. While it runs late and other replies come in, the wait goes on, for a
// second at most. Take a budget of 50 ms, and goroutines that wait 20 ms until they run. A request waits on
// after 50 ms as long as another reply came in within the last 50 + 2·20 = 90 ms.
const (
	lateEnough = 5 * time.Millisecond // for a goroutine that is ready to run
	slice      = 50 * time.Millisecond
)

// lateness is how long a goroutine that was ready to run has lately waited until it ran, at most.
type lateness struct{ notedAt, longest atomic.Int64 }

// note notes that one has waited for so long. Within 100 ms a shorter wait changes nothing.
func (l *lateness) note(now time.Time, late time.Duration) {
	if late >= time.Millisecond && l.within(now, 2*slice) < late {
		l.notedAt.Store(now.UnixNano())
		l.longest.Store(int64(late))
	}
}

// measure yields, notes how long that took, and returns the instant after that.
func (l *lateness) measure() (now time.Time) {
	before := time.Now()
	runtime.Gosched()
	now = time.Now()
	l.note(now, now.Sub(before))
	return now
}

// excuses reports whether a request that has waited since an instant is to wait on although
// ctx has ended: this process runs late, and replies come in. latest returns the instant
// of the latest one.
func (l *lateness) excuses(ctx context.Context, since time.Time, latest func() time.Time) bool {
	if ctx.Err() != context.DeadlineExceeded {
		return false // the caller has left
	}
	now := l.measure()
	late := l.within(now, 2*slice)
	return late >= lateEnough && now.Sub(since) < callTimeout && now.Sub(latest()) < slice+2*late
}

// within returns the lateness noted within a time before now.
func (l *lateness) within(now time.Time, span time.Duration) time.Duration {
	if now.UnixNano()-l.notedAt.Load() > int64(span) {
		return 0
	}
	return time.Duration(l.longest.Load())
}

// allowance returns how much longer to wait for a server because this process runs late.
func (l *lateness) allowance(now time.Time) time.Duration {
	return min(20*l.within(now, time.Second), time.Second)
}

// timelyLocked reports whether the server answers calls in less time than ctx gave a
// request that has waited since an instant, or this process runs too late to tell.
func (l *line) timelyLocked(ctx context.Context, since time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && l.answeredIn < deadline.Sub(since) || l.lines.late.within(time.Now(), 2*slice) >= lateEnough
}

// behind reports whether ctx ended because this process runs late, not because the server
// is slow.
func (l *line) shouldWaitOn(ctx context.Context, since time.Time) bool {
	return l.lines.late.excuses(ctx, since, func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answeredAt
	})
}
