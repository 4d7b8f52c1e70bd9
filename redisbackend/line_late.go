package redisbackend

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// The wait for a reply ends with ctx, unless this process runs late: if it has more
// goroutines to run than time, it does not read its replies. While it runs late and
// other replies come in, the wait goes on, for as long as a call may take.
const (
	lateEnough = 5 * time.Millisecond // for a goroutine that is ready to run
	slice      = 50 * time.Millisecond
)

// lateness is how late this process lately ran goroutines that were ready to run, at
// most.
type lateness struct{ at, by atomic.Int64 }

func (l *lateness) note(now time.Time, late time.Duration) {
	if late >= time.Millisecond && l.within(now, 2*slice) < late {
		l.at.Store(now.UnixNano())
		l.by.Store(int64(late))
	}
}

// measure notes how long other goroutines that are ready to run take.
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
func (l *lateness) within(now time.Time, last time.Duration) time.Duration {
	if now.UnixNano()-l.at.Load() > int64(last) {
		return 0
	}
	return time.Duration(l.by.Load())
}

// allowance returns how much longer to wait for a server because this process runs late.
func (l *lateness) allowance(now time.Time) time.Duration {
	return min(20*l.within(now, time.Second), time.Second)
}

// timelyLocked reports whether the server answers calls in less time than ctx gave a
// request that has waited since an instant, or this process runs too late to tell.
func (l *line) timelyLocked(ctx context.Context, since time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && l.answeredIn < deadline.Sub(since) || l.all.late.within(time.Now(), 2*slice) >= lateEnough
}

// behind reports whether ctx ended because this process runs late, not because the server
// is slow.
func (l *line) behind(ctx context.Context, since time.Time) bool {
	return l.all.late.excuses(ctx, since, func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answeredAt
	})
}
