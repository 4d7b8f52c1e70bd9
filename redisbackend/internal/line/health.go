package line

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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

	// fastAnswer is how fast the latest answer of a server must have been for inline calls and for
	// fastCalls: a caller's time suffices for a new connection, too, and a call that waits for
	// another waits a short time.
	fastAnswer = 2 * time.Millisecond

	// wellFor is how long a decision counts as a sign that its server is well.
	wellFor = time.Minute
)

// errDown is the error of a request for a server that is down. It counts against the backend
// unless another server is well.
var errDown = errors.New("the server of this key does not answer, while others may")

// health judges one server. The lock of its line guards it, except for isWell.
type health struct {
	name     string        // of the server, in the log; "": there is only one
	patience time.Duration // see quietFor
	late     *lateness     // of this process
	reports  reporter
	wellAt   atomic.Int64 // latest decision, Unix nanoseconds; negative: it has failed since

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

	down bool
}

// newHealth returns the health of a server that has not been asked yet.
func newHealth(name string, patience time.Duration, late *lateness, logger *slog.Logger) *health {
	return &health{
		name: name, patience: patience, late: late,
		reports: reporter{server: name, logger: logger},
	}
}

// callCount is how many calls are under way, and how many may be.
type callCount struct{ calls, most int }

// answers reports whether err comes from a reply of the server.
func answers(err error) bool {
	if err == nil {
		return true
	}
	var reply redis.Error // allocates, so it comes last
	return errors.As(err, &reply)
}

// begun records that a call begins.
func (h *health) begun(now time.Time, first bool) {
	if first {
		h.quietSince = now
	}
}

// admit returns an error if a request must fail at once, since its server is down. probes is
// true if the request is to be sent as a probe, even beyond maxCalls. Requests of the only server
// may queue: they need a probe only if maxCalls calls are under way and none is answered.
func (h *health) admit(now time.Time, n callCount) (probes bool, err error) {
	if !h.down && !h.isDown(now, n) {
		return false, nil
	}
	mayProbe := (!h.probing || now.Sub(h.probedAt) >= probeFor) &&
		n.calls < n.most+maxProbes
	switch {
	case h.name == "":
		mayProbe = mayProbe && n.calls >= n.most
	case h.mayBeBack(now, n):
		return false, nil
	case !mayProbe:
		return false, errDown
	}
	if mayProbe {
		h.probing, h.probedAt = true, now
	}
	return mayProbe, nil
}

// mayBeBack marks one of several servers as down. It reports whether all requests are sent
// all the same: nothing was sent for a second after a failure, so the server may be back. That
// ends as soon as the server has been silent for its patience again.
func (h *health) mayBeBack(now time.Time, n callCount) bool {
	if !h.down {
		h.down = true
		h.wellAt.Store(-1)
		h.reports.set(unreachable, h.latest)
	}
	if n.calls == 0 && now.Sub(h.failedAt) > probeFor {
		h.retriedAt, h.probedAt = now, now
	}
	return now.Sub(h.retriedAt) <= h.patienceAt(now)
}

// isDown reports whether the server has not answered for longer than its patience. A time in
// which no call was made does not count.
func (h *health) isDown(now time.Time, n callCount) bool {
	var quiet time.Duration
	if n.calls > 0 {
		quiet = now.Sub(h.quietSince)
	}
	if h.failures >= failuresInRow {
		quiet = max(quiet, h.failedAt.Sub(h.failingSince))
	}
	return quiet > h.patience && quiet > h.patienceAt(now)
}

// patienceAt returns how long the server may be silent. A server 40 ms away has 320 ms, one 1
// ms away 100 ms.
func (h *health) patienceAt(now time.Time) time.Duration {
	patience := max(h.patience, roundTrips*h.answeredIn)
	if h.answeredAt.IsZero() {
		patience = max(patience, quietAtFirst)
	}
	return min(patience, max(h.patience, CallTimeout)) + h.late.allowance(now)
}

// judge records the outcome of a call that began at since. decided is false if the server
// answered only with errors.
func (h *health) judge(now, since time.Time, answered, decided bool, failure error) {
	if decided {
		h.wellAt.Store(now.UnixNano())
	} else if failure != nil {
		h.wellAt.Store(-1)
	}
	h.answeredFast = answered && now.Sub(since) < fastAnswer
	if !answered {
		if h.failures++; h.failures == 1 {
			h.failingSince = now
		}
		h.failedAt, h.latest = now, failure
		return
	}
	h.quietSince, h.answeredAt, h.answeredIn = now, now, now.Sub(since)
	h.failures, h.latest = 0, nil
	h.down = false
	if decided {
		h.errorReplies = 0
		h.reports.set(well, nil)
		return
	}
	if h.errorReplies++; h.errorReplies == 1 {
		h.errorRepliesSince = now
	}
	h.latestReply = failure
	if h.errorReplies >= failuresInRow && now.Sub(h.errorRepliesSince) > quietFor {
		h.reports.set(failing, failure)
	}
}

// isWell reports whether the latest call of the server decided, less than wellFor ago.
func (h *health) isWell(now time.Time) bool {
	at := h.wellAt.Load()
	return at > 0 && now.UnixNano()-at < wellFor.Nanoseconds()
}

// timely reports whether the latest call took less time than ctx gave a request that has
// waited since an instant. If this process runs late it cannot tell, and reports true.
func (h *health) timely(ctx context.Context, since time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && h.answeredIn < deadline.Sub(since) ||
		h.late.within(time.Now(), 2*slice) >= lateEnough
}

// condition is the condition of a server in the log.
type condition uint8

const (
	well condition = iota
	failing
	unreachable
)

// reporter logs the condition of one of several servers, on a goroutine of its own.
type reporter struct {
	server string // "": there is only one, and nothing is logged
	logger *slog.Logger

	mu              sync.Mutex
	wanted, written condition
	err             error
	runs            bool
}

// set logs c unless it is the condition in the log. err is why.
func (r *reporter) set(c condition, err error) {
	if r.server == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c == r.wanted {
		return
	}
	r.wanted, r.err = c, err
	if !r.runs {
		r.runs = true
		go r.run()
	}
}

func (r *reporter) run() {
	for {
		r.mu.Lock()
		c, err := r.wanted, r.err
		if c == r.written {
			r.runs = false
			r.mu.Unlock()
			return
		}
		r.written = c
		r.mu.Unlock()
		r.log(c, err)
	}
}

func (r *reporter) log(c condition, err error) {
	defer func() { _ = recover() }() // a panic of the logger cannot be logged
	logger := r.logger
	if logger == nil {
		logger = slog.Default()
	}
	switch c {
	case well:
		logger.Info("weir: Redis server answers again", "server", r.server)
	case failing:
		logger.Warn("weir: Redis server replies only with errors", "server", r.server, "error", err)
	case unreachable:
		if err == nil {
			err = errors.New("no answer")
		}
		logger.Warn("weir: Redis server down", "server", r.server, "error", err)
	}
}
