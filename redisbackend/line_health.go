package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
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
	// server that nobody has asked since is still taken to be down.
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

// spared is an error that does not count against the backend as a whole.
type spared struct{ error }

// SparesBackend implements an interface of package remote.
func (spared) SparesBackend() bool { return true }

func (s spared) Unwrap() error { return s.error }

// explained returns the error of a decision, with what to do about it where that is known. An error
// about the state of a key is marked as spared: it is no failure of the server. It names scopes, and
// no key.
func explained(err error, accounts []account) error {
	text := err.Error()
	switch {
	case redis.HasErrorPrefix(err, "WEIR"):
		var scopes []string
		for i := range accounts {
			scopes = append(scopes, strconv.Quote(accounts[i].Scope))
		}
		return spared{fmt.Errorf("scope %s: %w", strings.Join(scopes, " or "), err)}
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("%w: %s", err, useCluster)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "can't run this command"), strings.Contains(text, "ACL failure in script"):
		return fmt.Errorf("%w: Backend.Check says what to allow", err)
	case strings.Contains(text, "OOM "):
		return fmt.Errorf("%w: %s", err, raiseMemory)
	}
	return err
}

// advised returns what a client says of a call, with what to do about it where that is known. A
// server that does not know a command quotes its arguments, keys and passwords among them: they
// are left out.
func advised(err error) error {
	if err == nil {
		return nil
	}
	if text, _, quotes := strings.Cut(err.Error(), ", with args beginning with"); quotes {
		return redisError(text)
	}
	var call *os.SyscallError
	isClosed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if errors.As(err, &call) {
		isClosed = slices.Contains([]string{"read", "write", "wsarecv", "wsasend"}, call.Syscall)
	}
	if isClosed {
		return fmt.Errorf("%w: %s", err, closedByServer)
	}
	return err
}

// withoutTLS returns err, of a call to a server that has not answered any yet, with what may be
// wrong.
func withoutTLS(err error, client redis.Scripter) error {
	if errors.Is(err, context.DeadlineExceeded) && usesTLS(client) {
		return fmt.Errorf("%w: %s", err, unansweredTLS)
	}
	return err
}

// explained returns the error of a request, with what may be wrong if the server has never
// answered.
func (l *line) explained(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answeredAt.IsZero() {
		return err
	}
	return withoutTLS(err, l.all.client)
}

const (
	useCluster  = "the server is a node of a Cluster: use a redis.ClusterClient, or a URL like redis://host1:6379?addr=host2:6379"
	raiseMemory = "the server's memory is full: raise maxmemory"

	closedByServer = "the server closed the connection: a restart, maxclients, or TLS on one side alone (rediss://)?"
	unansweredTLS  = "no TLS handshake so far: if the server speaks none, use redis://"
)

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

// admitLocked returns an error if a request must neither be sent nor wait. probes is true
// if it is to be sent as a probe, even above the limit of calls.
func (l *line) admitLocked(now time.Time) (probes bool, err error) {
	if !l.down && !l.isDownLocked(now) {
		return false, nil
	}
	mayProbe := (!l.probing || now.Sub(l.probedAt) >= probeFor) && l.calls < l.all.most+maxProbes
	if l.name == "" { // the only server: requests may wait for it
		if mayProbe = mayProbe && l.calls >= l.all.most; mayProbe {
			l.probing, l.probedAt = true, now
		}
		return mayProbe, nil
	}
	if !l.down {
		l.down = true
		l.wellAt.Store(-1)
		l.reportLocked(unreachable)
	}
	// Nobody has asked for a while, so the server may be back. All requests are sent, until
	// they have found that it is not.
	if l.calls == 0 && now.Sub(l.failedAt) > probeFor {
		l.retriedAt, l.probedAt = now, now
	}
	if now.Sub(l.retriedAt) <= l.patienceLocked(now) {
		return false, nil
	}
	if !mayProbe {
		return false, errDown
	}
	l.probing, l.probedAt = true, now
	return true, nil
}

// isDownLocked reports whether the server has answered nothing for too long. The time since
// the latest failure does not count: nobody has asked in it.
func (l *line) isDownLocked(now time.Time) bool {
	patience := l.patienceLocked(now)
	return l.calls > 0 && now.Sub(l.quietSince) > patience ||
		l.failures >= failuresInRow && l.failedAt.Sub(l.failingSince) > patience
}

func (l *line) patienceLocked(now time.Time) time.Duration {
	patience := max(l.all.patience, roundTrips*l.answeredIn)
	if l.answeredAt.IsZero() {
		patience = max(patience, quietAtFirst)
	}
	return min(patience, max(l.all.patience, callTimeout)) + l.all.late.allowance(now)
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
		l.errorReplies = 0
		l.reportLocked(well)
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
	logger := l.all.logger
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
