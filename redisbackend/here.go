package redisbackend

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A caller makes a call itself where it need not leave it behind: that saves two
// changes of goroutines, a third of what a decision takes beside Redis.

// brisk is how fast a server has to answer for that. Then a connection, too, is
// made in the time that a caller has.
const brisk = 2 * time.Millisecond

// isForCaller reports whether the caller may make a call itself. The lane's lock
// is held.
func (l *lane) isForCaller(ctx context.Context, now time.Time) bool {
	if ctx.Done() == nil {
		return true // it would wait as long as the client does anyway
	}
	_, ends := ctx.Deadline()
	return ends && l.prompt && l.brisk && l.late.within(now, time.Second) == 0
}

// callHere makes the call of a on the caller's goroutine.
func (l *lane) callHere(ctx context.Context, a *ask, since time.Time) (err error) {
	var reply *redis.Cmd
	defer func() {
		if reply == nil {
			err = errExited
			if v := recover(); v != nil {
				err = panicked(v)
			}
		}
		l.endHere(reply, err, since)
	}()
	reply = takeScript.run(ctx, l.client, a.keys, a.args...)
	numbers, err := reply.Slice()
	if err != nil {
		return err
	}
	if a.now, err = instantOf(numbers); err != nil {
		return err
	}
	a.numbers = numbers[1:]
	return checkNumbers(a.numbers, a.width)
}

// endHere ends a call that a caller has made, and has others sent that waited.
func (l *lane) endHere(reply *redis.Cmd, err error, since time.Time) {
	now := time.Now()
	if reply != nil {
		err = reply.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeLocked(now, since, answers(err), err == nil, err)
	if answers(err) {
		l.noteLocked(now, now.Sub(since), 1)
	}
	if l.calls > l.allowedLocked(now) || !l.waits() {
		l.calls--
		l.watchLocked()
		return
	}
	l.startLocked(now)
}

// isPrompt reports whether calls of a client end as soon as the deadline of their
// context has passed, in whatever they are then held up.
func isPrompt(client redis.Scripter) bool {
	c, ok := client.(*redis.Client)
	if !ok {
		return false
	}
	o := c.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}
