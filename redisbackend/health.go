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

// Of several servers one may be dead while the others are well. It is then given
// up, for itself: its requests fail at once, but for one at a time, which probes.

const (
	// quietFor is how long a server may leave calls without any answer, or fail
	// them all, before it is given up. One that is far away has as long as
	// roundTrips of its answers took: they may be connecting, over TLS.
	quietFor   = 100 * time.Millisecond
	roundTrips = 8

	// quietAtFirst is the same for a server that has not answered yet.
	quietAtFirst = 500 * time.Millisecond

	// failuresInRow is how many calls have to fail for that, where they fail.
	failuresInRow = 3

	// probeFor is how long a probe keeps others from being made.
	probeFor = time.Second

	// maxProbes is how many probes may be under way beyond the calls of a lane.
	maxProbes = 4

	// wellFor is how long a server that decided, and was not asked since, is
	// taken to be well.
	wellFor = time.Minute
)

// errGivenUp is the error of a request for a server that has been given up. It speaks
// against the backend unless another server is well.
var errGivenUp = errors.New("the server of this key does not answer, while others may")

// spared is an error that does not speak against the backend as a whole.
type spared struct{ error }

// SparesBackend implements an interface of package breaker.
func (spared) SparesBackend() bool { return true }

func (s spared) Unwrap() error { return s.error }

// ofOneKey returns err, and marks it if it is about the state of one key: one that
// this version cannot read says nothing of the others.
func ofOneKey(err error) error {
	if redis.HasErrorPrefix(err, "WEIR") {
		return spared{err}
	}
	return err
}

// health is what a lane knows of its server, guarded by the lane's lock.
type health struct {
	quietSince   time.Time // with calls under way: since when nothing was answered
	answeredAt   time.Time
	answeredIn   time.Duration // what that call took
	fastest      time.Duration // what the fastest call took, lately
	fastestAt    time.Time
	failures     int // calls that failed since, without an answer
	failingSince time.Time
	latest       error // of these
	refusal      error // the latest of a server that answers
	brisk        bool  // the latest call was answered fast
	probing      bool
	probedAt     time.Time

	refusals      int // calls in a row that the server answered with errors alone
	refusingSince time.Time

	condition condition
	reported  condition
	reporting bool
	givenUp   bool
}

// condition is what a log says of a server.
type condition uint8

const (
	well condition = iota
	refusing
	gone
)

// answers reports whether err is something that a server said.
func answers(err error) bool {
	if err == nil {
		return true
	}
	var reply redis.Error // on the heap
	return errors.As(err, &reply)
}

// admitLocked decides whether a request may be sent, or wait, at all. It probes if
// it is to be sent although no call is free.
func (l *lane) admitLocked(now time.Time) (probes bool, err error) {
	if !l.givenUp && !l.goneLocked(now) {
		return false, nil
	}
	mayProbe := (!l.probing || now.Sub(l.probedAt) >= probeFor) && l.calls < l.most+maxProbes
	if l.name == "" { // the only server: whoever waits for it may
		if mayProbe = mayProbe && l.calls >= l.most; mayProbe {
			l.probing, l.probedAt = true, now
		}
		return mayProbe, nil
	}
	if !l.givenUp {
		l.givenUp = true
		l.wellAt.Store(-1)
		l.reportLocked(gone)
	}
	if !mayProbe {
		return false, errGivenUp
	}
	l.probing, l.probedAt = true, now
	return true, nil
}

func (l *lane) goneLocked(now time.Time) bool {
	patience := max(l.patience, roundTrips*l.answeredIn)
	if l.answeredAt.IsZero() {
		patience = max(patience, quietAtFirst)
	}
	patience = min(patience, max(l.patience, callTimeout)) + l.late.allowance(now)
	return l.calls > 0 && now.Sub(l.quietSince) > patience ||
		l.failures >= failuresInRow && now.Sub(l.failingSince) > patience
}

// judgeLocked notes what came of a call.
func (l *lane) judgeLocked(now, since time.Time, answered, decided bool, failure error) {
	if decided {
		l.wellAt.Store(now.UnixNano())
	} else if failure != nil {
		l.wellAt.Store(-1)
	}
	l.brisk = answered && now.Sub(since) < brisk
	if !answered {
		if l.failures++; l.failures == 1 {
			l.failingSince = now
		}
		l.latest = failure
		return
	}
	l.quietSince, l.answeredAt, l.answeredIn = now, now, now.Sub(since)
	l.failures, l.latest = 0, nil
	l.givenUp = false
	if decided {
		l.refusals = 0
		l.reportLocked(well)
		return
	}
	if l.refusals++; l.refusals == 1 {
		l.refusingSince = now
	}
	l.refusal = failure
	if l.refusals >= failuresInRow && now.Sub(l.refusingSince) > quietFor {
		l.reportLocked(refusing)
	}
}

// isWell reports whether the server did what it was last asked to.
func (l *lane) isWell(now time.Time) bool {
	at := l.wellAt.Load()
	return at > 0 && now.UnixNano()-at < wellFor.Nanoseconds()
}

// reportLocked has the log say, soon, what has become of one of several servers.
func (l *lane) reportLocked(c condition) {
	if c == l.condition || l.name == "" {
		return
	}
	if l.condition = c; !l.reporting {
		l.reporting = true
		go l.report()
	}
}

func (l *lane) report() {
	for {
		l.mu.Lock()
		c, err := l.condition, l.latest
		if c == l.reported {
			l.reporting = false
			l.mu.Unlock()
			return
		}
		l.reported = c
		if c == refusing {
			err = l.refusal
		}
		l.mu.Unlock()
		l.log(c, err)
	}
}

func (l *lane) log(c condition, err error) {
	defer func() { _ = recover() }() // there is nowhere to say that a log panics
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	switch c {
	case well:
		logger.Info("weir: Redis server answers again", "server", l.name)
	case refusing:
		logger.Warn("weir: Redis server refuses", "server", l.name, "error", err)
	case gone:
		if err == nil {
			err = errors.New("no answer")
		}
		logger.Warn("weir: Redis server given up", "server", l.name, "error", err)
	}
}

// lateness is how late this process was seen to run goroutines that were ready: the
// most of late.
type lateness struct{ at, by atomic.Int64 }

func (l *lateness) note(now time.Time, late time.Duration) {
	if late >= time.Millisecond && l.within(now, 2*slice) < late {
		l.at.Store(now.UnixNano())
		l.by.Store(int64(late))
	}
}

// measure notes how long it takes until all have run that could.
func (l *lateness) measure() (now time.Time) {
	before := time.Now()
	runtime.Gosched()
	now = time.Now()
	l.note(now, now.Sub(before))
	return now
}

// excuses reports whether a request that has waited since an instant, until ctx
// ended, is to wait on: this process runs late, and what it waits for gets on.
func (l *lateness) excuses(ctx context.Context, since time.Time, latest func() time.Time) bool {
	if ctx.Err() != context.DeadlineExceeded {
		return false // the caller has left
	}
	now := l.measure()
	late := l.within(now, 2*slice)
	return late >= lateEnough && now.Sub(since) < callTimeout && now.Sub(latest()) < slice+2*late
}

// within returns what was noted in the last so many seconds.
func (l *lateness) within(now time.Time, last time.Duration) time.Duration {
	if now.UnixNano()-l.at.Load() > int64(last) {
		return 0
	}
	return time.Duration(l.by.Load())
}

// allowance returns how much longer than usual to wait for a sign of a server.
func (l *lateness) allowance(now time.Time) time.Duration {
	return min(20*l.within(now, time.Second), time.Second)
}
