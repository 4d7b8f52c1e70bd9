package redisbackend

import (
	"time"

	"github.com/weir-go/weir/internal/algorithm"
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/calendar"
	"github.com/weir-go/weir/internal/family"
	"github.com/weir-go/weir/limits"
)

// take.lua replies the states that a request found, and whether it was allowed. What remains and for how
// long to wait follows from them by package family, as it does in memory. So it is checked, too, that the
// request was to be allowed.

// result is what was decided on an account.
type result struct {
	enforced, shadow limits.Decision
}

// found is the state of a key that a request found, under the limit that it charged.
type found struct {
	family.Used
	now, asOf int64           // the instant of the decision; the same, or that of the state if the clock has stepped back
	period    calendar.Period // of a calendar
	waits     [2]int64        // of a log: how long the enforced and the shadow charges wait
	serial    int64           // of the state that the request left; 0: it took nothing
}

// width returns how many numbers a state of a has in a reply.
func (a *account) width() int { return algorithms[a.Limit.Algorithm()].numbers }

// waits returns how many waits a has in a reply.
func (a *account) waits() int {
	switch {
	case !a.limit.Lists:
		return 0
	case a.HasShadow:
		return 2
	}
	return 1
}

// never is above all numbers of a reply, and stands for [limits.Never] in states.
const never = 1<<53 - 1

// found reads what take.lua replies for a at an instant: the numbers of a state, waits, and a serial. ok is
// false if that cannot be.
func (a *account) found(now int64, numbers, waits []int64, serial int64) (f found, ok bool) {
	f.Used = family.Used{At: numbers[0], A: numbers[1]}
	if len(numbers) > 2 {
		f.B = numbers[2]
	}
	f.now, f.asOf = now, max(now, f.At)
	switch a.Limit.Algorithm() {
	case limits.AlgorithmFixedWindow:
		f.B = numbers[3]
	case limits.AlgorithmAnchoredWindow:
		f.B = numbers[3] << 1
	case limits.AlgorithmCalendar:
		end := f.At + numbers[2]
		f.B, f.period = numbers[3], calendar.Period{Start: f.At, End: end, Next: end + numbers[4]}
	}
	copy(f.waits[:], waits)
	f.serial = serial
	rate := a.Limit.Rate() // a level may be that of a higher maximum, and twice as high as that
	isLevel := !a.limit.Drains ||
		!arith.ProductExceeds(f.A, rate.Units, 2*algorithm.MaxUnits+2, rate.Period.Microseconds())
	return f, isLevel && serial < serials
}

// serials is above the serials of states.
const serials = 1 << 17

// decide decides n units of s, which is f or f after the enforced charges. wait is what a log tells.
func (a *account) decide(f *found, s family.Used, n int64, wait int64) (family.Used, family.Told, bool) {
	switch {
	case a.limit.Lists:
		fits := n == 0 || n <= a.limit.Max-s.A
		if fits && n > 0 {
			s.At, s.A = f.asOf, s.A+n
		}
		t := family.Told{InUse: s.A, Wait: wait}
		if s.A > 0 {
			t.Reset = max(0, s.At+a.limit.Period-f.asOf)
		}
		return s, t, fits
	case f.period.End > 0:
		return a.limit.DecideIn(f.period, s, n, f.asOf)
	}
	return a.limit.family.Decide(s, n, f.asOf, nil)
}

// result describes what was decided on a. A request that was denied, or only peeked, has taken nothing, so
// it is told what there is without it. fits says whether the enforced charges fit; ok is false if f cannot be.
func (a *account) result(f *found, allowed, peeks bool) (r result, fits, ok bool) {
	after, t, fits := a.decide(f, f.Used, a.Enforced, f.waits[0])
	r.enforced, ok = a.describe(f, after, t, a.Enforced, fits, 0, allowed, peeks)
	if ok && a.HasShadow {
		s := f.Used
		if allowed {
			s = after
		}
		after, t, shadowFits := a.decide(f, s, a.Shadow, f.waits[1])
		r.shadow, ok = a.describe(f, after, t, a.Shadow, shadowFits, 1, allowed, peeks)
		if a.limit.Queues && r.shadow.Ticket != 0 { // a queue returns only its latest taking
			r.enforced.Ticket &= ticketMask
		}
	}
	return r, fits, ok
}

func (a *account) describe(
	f *found, after family.Used, t family.Told, n int64, fits bool, isShadow int, allowed, peeks bool,
) (d limits.Decision, ok bool) {
	takes := allowed && !peeks
	if !takes {
		wait := t.Wait
		if _, t, _ = a.decide(f, f.Used, 0, f.waits[isShadow]); !fits {
			t.Wait = wait
		}
	}
	if !fits && n > a.limit.Max && !a.limit.Bans {
		t.Wait = 0 // it is not told
	}
	ahead := f.asOf - f.now
	t.Reset, t.Wait = t.Reset+ahead, t.Wait+ahead
	if t.Reset < 0 || t.Wait < 0 || max(t.Reset, t.Wait) > longestWait || !fits && t.Wait == 0 && n <= a.limit.Max {
		return d, false
	}
	a.limit.Describe(&d, n, t, fits)
	d.At = f.now
	if !allowed || !fits || n == 0 {
		return d, true
	}
	if d.Delay = a.limit.Queued(after, n); d.Delay > 0 {
		d.Delay += arith.Wait(ahead)
	}
	if a.settles && takes {
		at := f.asOf
		if a.Limit.Algorithm() == limits.AlgorithmSlidingWindow {
			at = after.At / a.limit.Period
		}
		d.Ticket = ticketOf(at, f.serial)
	}
	return d, true
}

// longestWait is above every wait, in microseconds. It is the same for all limits, since a key may have been
// charged under another one: a window may owe for 200 years if its limit was lowered, a bucket may drain
// for 100, and a step back of the clock adds a period.
const longestWait = int64(202 * 366 * 24 * time.Hour / time.Microsecond)
