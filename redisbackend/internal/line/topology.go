package line

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// topology asks the servers of a Cluster which of them keeps which slots. The client does so by
// itself only if it knows nothing yet, if a server sends it elsewhere, and once a minute. Without a
// topology it would dial a dead master for up to a minute after its replica has taken over.
//
// For example a master dies at 0 ms, and its replica takes over at 4,100 ms:
//
//	   0 ms   a call breaks: one question, in the background
//	 250 ms   the next question (askEvery), as long as requests come for the dead master
//	 ...
//	4250 ms   a server answers with the new master: the next request goes there
type topology struct {
	learn    func(ctx context.Context, name string) error // asks only if nothing is known
	ask      func(context.Context) error
	serverOf func(name string) (*redis.Client, error)
	opinion  time.Duration // secondOpinion; tests are more patient

	known      atomic.Bool  // learn has succeeded
	unanswered atomic.Int64 // calls of learn and ask under way

	mu      sync.Mutex
	attempt *learning // call of learn under way; nil: none
	lost    map[*redis.Client]lostServer
	asking  bool      // a goroutine asks, or will
	askedAt time.Time // when the latest question ended
}

// learning is a call of topology.learn. err is set before done is closed.
type learning struct {
	done chan struct{}
	err  error
}

// lostServer is a server that cannot be reached, or does not answer.
type lostServer struct {
	name string // that it kept
	at   time.Time
}

const (
	// askEvery is the time from the end of one question to the next. There is one at a time for all
	// requests.
	askEvery = 250 * time.Millisecond

	// lostFor is how long questions go on after the latest sign that a server is lost. It is longer
	// than the time from one probe of a breaker to the next, half a second unless set.
	lostFor = 1250 * time.Millisecond

	// secondOpinion is how long a question waits for its answer before it is asked once more, besides:
	// mostOpinions times. A client asks its servers one after the other, in any order, and would wait
	// for a silent one until its own time-out. With one of three silent, all eight are put to that
	// one first in one of 6,561 cases.
	secondOpinion = 25 * time.Millisecond
	mostOpinions  = 8

	// mostUnanswered is how many calls may be under way. Those of a client without
	// ContextTimeoutEnabled go on after their question has ended, for its ReadTimeout and longer.
	mostUnanswered = 64
)

var errUnanswered = fmt.Errorf("the servers of the Cluster have left %d questions for its state "+
	"unanswered: set ContextTimeoutEnabled in redis.ClusterOptions", mostUnanswered)

// newTopology returns the topology of a Cluster.
func newTopology(client Cluster) *topology {
	return &topology{
		learn: func(ctx context.Context, name string) error {
			_, err := client.MasterForKey(ctx, name)
			return err
		},
		ask: func(ctx context.Context) error { // ForEachMaster first asks which servers are masters
			nothing := func(context.Context, *redis.Client) error { return nil }
			return client.ForEachMaster(ctx, nothing)
		},
		serverOf: func(name string) (*redis.Client, error) {
			return client.MasterForKey(context.Background(), name) // no I/O after learn
		},
		opinion: secondOpinion,
		lost:    make(map[*redis.Client]lostServer),
	}
}

// learnFirst waits until learn has returned, or ctx ends. Callers share one attempt.
func (t *topology) learnFirst(ctx context.Context, name string) error {
	t.mu.Lock()
	attempt := t.attempt
	if attempt == nil {
		attempt = &learning{done: make(chan struct{}), err: errExited}
		t.attempt = attempt
		go t.runAttempt(context.WithoutCancel(ctx), attempt, name)
	}
	t.mu.Unlock()
	select {
	case <-attempt.done:
		return attempt.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *topology) runAttempt(ctx context.Context, attempt *learning, name string) {
	learn := func(ctx context.Context) error { return t.learn(ctx, name) }
	attempt.err = t.soonest(ctx, learn)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt = nil
	t.known.Store(attempt.err == nil)
	close(attempt.done)
}

// miss notes that the server of a name cannot be reached, and has the others asked who keeps its
// slots now. It does no I/O.
func (t *topology) miss(server *redis.Client, name string, now time.Time) {
	if t.isReplaced(server, name) { // a call that began before has failed
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[server] = lostServer{name, now}
	if !t.asking {
		t.asking = true
		if wait := time.Until(t.askedAt.Add(askEvery)); wait > 0 {
			t.askIn(wait)
		} else {
			go t.question()
		}
	}
}

// askIn asks after a time, if a server is lost then.
func (t *topology) askIn(wait time.Duration) {
	time.AfterFunc(wait, func() {
		if t.lookLeft() {
			t.question()
		}
	})
}

// question asks once, and again after askEvery while a server is lost.
func (t *topology) question() {
	_ = t.soonest(context.Background(), t.ask) // the next request shows what has come of it
	t.mu.Lock()
	t.askedAt = time.Now()
	t.mu.Unlock()
	if t.lookLeft() {
		t.askIn(askEvery)
	}
}

// lookLeft forgets servers that another has replaced, or that no request has missed of late. It
// reports whether any are left.
func (t *topology) lookLeft() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for server, l := range t.lost {
		if t.isReplaced(server, l.name) || now.Sub(l.at) > lostFor {
			delete(t.lost, server)
		}
	}
	t.asking = len(t.lost) > 0
	return t.asking
}

// isReplaced reports whether another server keeps a name by now.
func (t *topology) isReplaced(server *redis.Client, name string) bool {
	keeper, err := t.serverOf(name)
	return err == nil && keeper != server
}

// soonest returns nil as soon as a call of ask does. While none has returned it calls ask again
// after each pause. It returns an error if all have failed, or none returns within CallTimeout, or
// within the pause if tests have set a longer one.
func (t *topology) soonest(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(CallTimeout, t.opinion))
	defer cancel()
	answers := make(chan error, mostOpinions)
	call := func() {
		err := errExited // unless ask returns
		defer func() {
			if v := recover(); v != nil {
				err = Panicked(v)
			}
			t.unanswered.Add(-1)
			answers <- err
		}()
		err = ask(ctx)
	}
	begun, open := 0, 0
	begin := func() {
		if t.unanswered.Add(1) > mostUnanswered {
			t.unanswered.Add(-1)
			return
		}
		begun, open = begun+1, open+1
		go call()
	}
	if begin(); open == 0 {
		return errUnanswered
	}
	timer := time.NewTimer(t.opinion)
	defer timer.Stop()
	for {
		select {
		case err := <-answers:
			if open--; err == nil || open == 0 {
				return err
			}
		case <-timer.C:
			if begun < mostOpinions {
				begin()
				timer.Reset(t.opinion)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
