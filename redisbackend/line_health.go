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

// One of several servers may fail while the others work. Its line then takes it to be down:
// requests fail at once, except for one at a time, the probe.
//
// For example a server on a fast network stops answering at 0 ms, under 100 requests a second:
//
//	  0 ms   calls get no answer; callers fail when their budgets end
//	100 ms   the server is down (quietFor): requests fail at once
//	100 ms   one request is sent as a probe; another every second (probeFor)
//	  ...    the probe at 4,100 ms is answered: all requests are sent again

const (
	// quietFor is how long a server may leave all calls unanswered, or fail them, before it is
	// down. A distant server has eight times the duration of its latest call (roundTrips), since
	// calls may have to connect over TLS.
	quietFor   = 100 * time.Millisecond
	roundTrips = 8

	// quietAtFirst is the same for a server that has never answered.
	quietAtFirst = 500 * time.Millisecond

	// failuresInRow is how many calls must fail in a row before a server is down.
	failuresInRow = 3

	// probeFor is the time from one probe to the next. A server that nothing was sent to for that
	// long after a failure may be back.
	probeFor = time.Second

	// maxProbes is how many probes may be under way beyond maxCalls.
	maxProbes = 4

	// wellFor is how long a decision counts as a sign that its server is well.
	wellFor = time.Minute
)

// errDown is the error of a request for a server that is down. It counts against the backend
// unless another server is well.
var errDown = errors.New("the server of this key does not answer, while others may")

// health is what a line knows about its server. The mutex of the line guards it.
type health struct {
	quietSince   time.Time // latest answer, or later start of the first call under way
	answeredAt   time.Time
	answeredIn   time.Duration // duration of the latest call that was answered
	failures     int           // calls since then that got no answer
	failingSince time.Time     // the first of these
	failedAt     time.Time     // the latest of these
	latest       error         // error of the latest of these
	latestReply  error         // latest error that the server replied
	answeredFast bool          // the latest call was answered within fastAnswer
	probing      bool
	probedAt     time.Time
	retriedAt    time.Time // when all requests were sent again after a pause

	errorReplies      int // calls in a row that were answered only with errors
	errorRepliesSince time.Time

	condition condition
	reported  condition
	reporting bool
	down      bool
}

// condition is the condition of a server in the log.
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
	var reply redis.Error // allocates, so it comes last
	return errors.As(err, &reply)
}

// admitLocked returns an error if a request must fail at once, since its server is down. probes is
// true if the request is to be sent as a probe, even beyond maxCalls. Requests of the only server
// may queue: they need a probe only if maxCalls calls are under way and none is answered.
func (l *line) admitLocked(now time.Time) (probes bool, err error) {
	if !l.down && !l.isDownLocked(now) {
		return false, nil
	}
	mayProbe := (!l.probing || now.Sub(l.probedAt) >= probeFor) &&
		l.calls < l.lines.maxCalls+maxProbes
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

// mayBeBackLocked marks one of several servers as down. It reports whether all requests are sent
// all the same: nothing was sent for a second after a failure, so the server may be back. That
// ends as soon as the server has been silent for its patience again.
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

// isDownLocked reports whether the server has not answered for longer than its patience. A time in
// which no call was made does not count.
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

// patienceLocked returns how long the server may be silent. A server 40 ms away has 320 ms, one 1
// ms away 100 ms.
func (l *line) patienceLocked(now time.Time) time.Duration {
	patience := max(l.lines.patience, roundTrips*l.answeredIn)
	if l.answeredAt.IsZero() {
		patience = max(patience, quietAtFirst)
	}
	return min(patience, max(l.lines.patience, callTimeout)) + l.lines.late.allowance(now)
}

// judgeLocked records the outcome of a call that began at since. decided is false if the server
// answered only with errors.
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

// isWell reports whether the latest call of the server decided, less than wellFor ago.
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

// A process that has more goroutines to run than CPU time reads its replies late. That is no fault
// of the server. So a request whose context has ended waits on, for a second at most, while this
// process runs late and other replies come in. For example goroutines wait 20 ms until they run,
// and the budget is 50 ms. The request waits on after 50 ms if another reply came within the last
// 50 + 2·20 = 90 ms.
const (
	lateEnough = 5 * time.Millisecond // a process with such a lateness runs late
	slice      = 50 * time.Millisecond
)

// lateness is the longest that a goroutine has lately waited to run although it was ready.
type lateness struct{ notedAt, longest atomic.Int64 }

// note records that a goroutine was late. Within 100 ms only a longer lateness counts.
func (l *lateness) note(now time.Time, late time.Duration) {
	if late >= time.Millisecond && l.within(now, 2*slice) < late {
		l.notedAt.Store(now.UnixNano())
		l.longest.Store(int64(late))
	}
}

// measure yields, records how long that took, and returns the time afterwards.
func (l *lateness) measure() (now time.Time) {
	before := time.Now()
	runtime.Gosched()
	now = time.Now()
	l.note(now, now.Sub(before))
	return now
}

// excuses reports whether a request that has waited since an instant should wait on although the
// deadline of ctx has passed. latest returns the instant of the latest reply.
func (l *lateness) excuses(ctx context.Context, since time.Time, latest func() time.Time) bool {
	if ctx.Err() != context.DeadlineExceeded {
		return false // the caller has left
	}
	now := l.measure()
	late := l.within(now, 2*slice)
	return late >= lateEnough && now.Sub(since) < callTimeout && now.Sub(latest()) < slice+2*late
}

// within returns the lateness if it was recorded within a span before now, otherwise 0.
func (l *lateness) within(now time.Time, span time.Duration) time.Duration {
	if now.UnixNano()-l.notedAt.Load() > int64(span) {
		return 0
	}
	return time.Duration(l.longest.Load())
}

// allowance returns how much more patience servers have because this process runs late.
func (l *lateness) allowance(now time.Time) time.Duration {
	return min(20*l.within(now, time.Second), time.Second)
}

// timelyLocked reports whether the latest call took less time than ctx gave a request that has
// waited since an instant. If this process runs late it cannot tell, and reports true.
func (l *line) timelyLocked(ctx context.Context, since time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && l.answeredIn < deadline.Sub(since) ||
		l.lines.late.within(time.Now(), 2*slice) >= lateEnough
}

// shouldWaitOn reports whether a request should wait on although ctx has ended: this process runs
// late, and the server answers others.
func (l *line) shouldWaitOn(ctx context.Context, since time.Time) bool {
	return l.lines.late.excuses(ctx, since, func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answeredAt
	})
}
