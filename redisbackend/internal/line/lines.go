package line

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lines are the lines to the servers of a client. A Line may be dropped when it is idle, so what is
// counted for a client belongs to Lines, or to their caller.
type Lines struct {
	caller     caller
	endsOnTime bool // see endsCallsOnTime
	maxCalls   int  // under way to each server
	Logger     *slog.Logger
	Patience   time.Duration // quietFor; tests are more patient
	late       lateness

	// deny takes jobs out of the queue that the answers to others have answered, too, and returns
	// them. They waited before the call of these others began.
	deny func(q *Queue, answered []*Job, begun time.Time) []*Job

	only     *Line // nil: there are several servers
	serverOf func(name string) (*redis.Client, error)
	topology *topology // nil: the client knows its servers without asking

	mu       sync.Mutex
	byServer atomic.Pointer[map[*redis.Client]*Line]
}

// maxLines is how many lines are kept. The servers of a Cluster come and go. Above maxLines idle
// lines are dropped.
const maxLines = 64

// NewLines returns the lines to the servers of client, which may spread keys over them. deny is
// the field of Lines.
func NewLines(
	client redis.Scripter, spreads bool, deny func(*Queue, []*Job, time.Time) []*Job,
	logger *slog.Logger,
) *Lines {
	ls := &Lines{
		maxCalls: callsOf(client), Logger: logger, Patience: quietFor, deny: deny,
	}
	ls.caller.begin(client, spreads)
	switch client := client.(type) {
	case Cluster:
		ls.topology = newTopology(client)
		ls.serverOf = ls.topology.serverOf
	case Ring:
		ls.serverOf = client.GetShardClientForKey
	default:
		ls.endsOnTime = endsCallsOnTime(client)
		ls.only = newLine(ls, nil)
	}
	return ls
}

// LearnSlots makes the backend group keys by slot from now on, after a CROSSSLOT error has shown
// that the client hides a Cluster. It returns false if the client cannot be asked slot by slot.
func (ls *Lines) LearnSlots() bool { return ls.caller.learnSlots() }

// Partition returns the partitioner. It is nil if one script decides all keys.
func (ls *Lines) Partition() Partitioner { return ls.caller.partition() }

// ServerNow returns the server that keeps a name, or nil if it is the only one or not known yet.
func (ls *Lines) ServerNow(name string) *redis.Client {
	if ls.only != nil || ls.topology != nil && !ls.topology.known.Load() {
		return nil
	}
	server, err := ls.serverOf(name)
	if err != nil {
		return nil
	}
	return server
}

// LineOf returns the line to the server that keeps a name.
func (ls *Lines) LineOf(ctx context.Context, name string) (*Line, error) {
	if ls.only != nil {
		return ls.only, nil
	}
	if ls.topology != nil && !ls.topology.known.Load() {
		if err := ls.topology.learnFirst(ctx, name); err != nil {
			return nil, WithoutTLS(Advised(err), ls.caller.client)
		}
	}
	server, err := ls.serverOf(name)
	if err != nil {
		return nil, err
	}
	if byServer := ls.byServer.Load(); byServer != nil {
		if l := (*byServer)[server]; l != nil {
			return l, nil
		}
	}
	return ls.add(server), nil
}

func (ls *Lines) add(server *redis.Client) *Line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	next := make(map[*redis.Client]*Line)
	if byServer := ls.byServer.Load(); byServer != nil {
		if l := (*byServer)[server]; l != nil {
			return l
		}
		for other, l := range *byServer {
			if len(*byServer) < maxLines || !l.idle() {
				next[other] = l
			}
		}
	}
	l := newLine(ls, server)
	next[server] = l
	ls.byServer.Store(&next)
	return l
}

// othersAreWell reports whether any server is well besides those of the excluded lines.
func (ls *Lines) othersAreWell(excluded ...*Line) bool {
	byServer := ls.byServer.Load()
	if byServer == nil {
		return false
	}
	now := time.Now()
next:
	for _, l := range *byServer {
		for _, other := range excluded {
			if l == other {
				continue next
			}
		}
		if l.health.isWell(now) {
			return true
		}
	}
	return false
}

// Blame returns the error of failing servers. It is spared if another server is well: then the
// breaker does not count it.
func (ls *Lines) Blame(err error, failing ...*Line) error {
	if ls.only != nil || !ls.othersAreWell(failing...) {
		return err
	}
	return spared{err}
}

// MayBeLate reports whether a request may be sent although its context has ended with err, because
// its budget passed while this process ran late.
func (ls *Lines) MayBeLate(err error) bool {
	if err != context.DeadlineExceeded {
		return false
	}
	return ls.late.within(ls.late.measure(), time.Second) >= lateEnough
}

// MayHaveRun reports whether a server may have run a script although the client returned err.
//
// Even after a redirection or a failed dial it may. A ClusterClient sends such commands of a
// pipeline a second time. If the connection then breaks before the reply to one of them, the
// commands behind it keep the error of the first time, but a server may have run them.
func (ls *Lines) MayHaveRun(err error) bool {
	var network *net.OpError
	switch {
	case err == nil || errors.Is(err, errDown):
		return false
	case answers(err):
		return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
	case errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Op == "dial":
		return ls.caller.redirects
	}
	return true
}

// Send sends e to the server of its key.
func (ls *Lines) Send(e *Errand) (err error) {
	if e.Line, err = ls.LineOf(EndedContext, e.Keys[0]); err == nil {
		err = e.Line.Submit(time.Now(), &e.Job)
	}
	return err
}

// SendAll sends errands and waits for the answers until ctx ends. It returns an error or nil for
// each.
func (ls *Lines) SendAll(ctx context.Context, errands []*Errand) []error {
	errs := make([]error, len(errands))
	byLine := make(map[*Line][]*Job)
	var unanswered atomic.Int64
	unanswered.Store(1)
	done := make(chan struct{})
	count := func() {
		if unanswered.Add(-1) == 0 {
			close(done)
		}
	}
	for i, e := range errands {
		e.Done = count
		if e.Line, errs[i] = ls.LineOf(ctx, e.Keys[0]); errs[i] == nil {
			byLine[e.Line] = append(byLine[e.Line], &e.Job)
			unanswered.Add(1)
		}
	}
	refused := make(map[*Line]error)
	for l, jobs := range byLine {
		if err := l.Submit(time.Now(), jobs...); err != nil {
			refused[l] = err
			unanswered.Add(-int64(len(jobs)))
		}
	}
	count()
	select {
	case <-done:
	case <-ctx.Done():
	}
	for i, e := range errands {
		switch {
		case errs[i] != nil: // no line: its server is not known
		case refused[e.Line] != nil:
			errs[i] = refused[e.Line]
		case e.fate.Load() == answered:
			errs[i] = e.Err
		case e.Line.Withdraw(&e.Job) || e.abandon():
			errs[i] = ctx.Err()
		default:
			errs[i] = e.Err
		}
	}
	return errs
}
