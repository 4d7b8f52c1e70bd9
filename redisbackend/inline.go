package redisbackend

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A caller makes a call inline, on its own goroutine, if the call ends when the caller
// would leave. That saves two switches of goroutines, a third of the time that a decision
// takes besides Redis.

// fastAnswer is the longest answer of a server that inline calls are made to. The time of
// a caller then suffices for a new connection, too.
const fastAnswer = 2 * time.Millisecond

// mayCallInline reports whether the caller may make a call inline. It has locked the lane.
func (l *lane) mayCallInline(ctx context.Context, now time.Time) bool {
	if ctx.Done() == nil {
		return true // it waits as long as the client does in any case
	}
	_, ends := ctx.Deadline()
	return ends && l.endsOnTime && l.answeredFast && l.late.within(now, time.Second) == 0
}

// callInline makes the call for a on the caller's goroutine.
func (l *lane) callInline(ctx context.Context, a *ask, since time.Time) (err error) {
	var reply *redis.Cmd
	defer func() {
		if reply == nil {
			err = errExited
			if v := recover(); v != nil {
				err = panicked(v)
			}
		}
		l.finishInline(reply, err, since)
		if a.holds != nil && err != nil {
			a.releaseIfTaken(err)
		}
	}()
	call := scriptCall{keys: a.keys, args: a.arguments(), once: l.once || a.holds != nil}
	takeScript.run(ctx, l.client, &call)
	reply = call.reply
	numbers, err := reply.Slice()
	if err != nil {
		return err
	}
	if a.now, err = instantOf(numbers); err != nil {
		return err
	}
	_, _, a.numbers, _, err = next(numbers[1:], 1, a.width)
	return err
}

// finishInline records how an inline call went, and starts a call for requests that wait.
func (l *lane) finishInline(reply *redis.Cmd, err error, since time.Time) {
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

// endsCallsOnTime reports whether all calls of a client end at the deadline of their
// context, whatever they are waiting for.
func endsCallsOnTime(client redis.Scripter) bool {
	c, ok := client.(*redis.Client)
	if !ok {
		return false
	}
	o := c.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}
