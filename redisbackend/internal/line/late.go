package line

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// CallTimeout is how long a call may take, whatever the deadlines of its callers. It is long
	// enough to connect over a slow network.
	CallTimeout = time.Second

	// LongestCall is how long a call may really take: calls that start within an eighth of
	// CallTimeout share a context.
	LongestCall = 9 * CallTimeout / 8
)

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
	return late >= lateEnough && now.Sub(since) < CallTimeout && now.Sub(latest()) < slice+2*late
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
