package redisbackend

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/calendar"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// account is the sum of all charges of one Take on one key: what take.lua is told of it, and
// how its reply is read.
type account struct {
	backends.Account
	name     string
	limit    *encoded
	enforces bool  // it has charges that are not Shadow, perhaps of no units
	settles  bool  // it has charges that last, and gets a ticket
	lasts    int64 // the longest of them, microseconds
	ticket   int64 // of a concurrency limit: the first id of its units
}

// accountsOf merges charges into the accounts of r, and sets the owner of each charge.
func (b *Bare) accountsOf(charges []backends.Charge, r *request, mode mode) (err error) {
	r.merged, r.accountOf, err = backends.Accounts(charges, r.merged, r.accountOf)
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	for _, a := range r.merged {
		limit, err := b.encode(a.Limit, mode.instant)
		if err != nil {
			return fmt.Errorf("redisbackend: limit of scope %q: %w", a.Scope, err)
		}
		if limit.Held {
			r.hasHeld = true
			r.accounts = append(r.accounts, b.heldAccount(a, limit, mode))
			continue
		}
		r.accounts = append(r.accounts, account{Account: a, name: b.name(a.Scope, a.Key), limit: limit})
	}
	for i := range charges {
		a := &r.accounts[r.accountOf[i]]
		a.enforces = a.enforces || !charges[i].Shadow
		if lasts := charges[i].Lasts; lasts > 0 {
			a.settles, a.lasts = true, max(a.lasts, lasts.Microseconds())
		}
	}
	return nil
}

// formOf returns a text that is the same for requests that are alike but for their keys.
func formOf(accounts []account, mode mode) string {
	if a := &accounts[0]; len(accounts) == 1 && !mode.peeks && a.Enforced == 1 && !a.HasShadow && !a.settles {
		return a.limit.takesOne
	}
	text := append(make([]byte, 0, 64*len(accounts)), mode.name()...)
	for i := range accounts {
		text = append(append(append(text, ' '), accounts[i].limit.text.(string)...), '=')
		text = accounts[i].appendUnits(text)
	}
	return string(text)
}

// units returns the units of an account of a request as an argument of take.lua.
func (a *account) units(t *takeJob) any {
	held := !t.mode.peeks && a.limit.Held
	if !held && a.enforces && !a.HasShadow && !a.settles {
		return a.Enforced
	}
	var room [64]byte
	text := a.appendUnits(room[:0])
	if held {
		text = t.backend.holds.appendID(append(text, '#'), a.ticket)
	}
	return string(text)
}

// appendUnits appends the units of a as in an argument of take.lua.
func (a *account) appendUnits(to []byte) []byte {
	if a.enforces {
		to = strconv.AppendInt(to, a.Enforced, 10)
	}
	if a.HasShadow {
		to = strconv.AppendInt(append(to, ','), a.Shadow, 10)
	}
	if a.settles {
		to = strconv.AppendInt(append(to, '@'), a.lasts, 10)
	}
	return to
}

// weight returns how many keys a counts as in a call.
func (a *account) weight() int {
	if !a.limit.Held {
		return a.limit.weight
	}
	return a.limit.weight + int(a.held()/unitsWeight)
}

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

// held returns how many units a may hold, at most. More than its limit never fits.
func (a *account) held() int64 {
	most := a.Limit.Burst()
	if !a.limit.Held || a.Enforced > most {
		return 0
	}
	n := a.Enforced
	if a.Shadow <= most {
		n += a.Shadow
	}
	return n
}

// take.lua replies the states that a request found, and whether it was allowed. What remains and for how
// long to wait follows from them by package family, as it does in memory. So it is checked, too, that the
// request was to be allowed.

// result is what was decided on an account.
type result struct {
	enforced, shadow limits.Decision
}

// found is the state of a key that a request found, under the limit that it charged.
type foundState struct {
	family.Used
	now     int64           // the instant of the decision
	asOf    int64           // the same, or that of the state if the clock has stepped back
	period  calendar.Period // of a calendar
	waits   [2]int64        // of a log: how long the enforced and the shadow charges wait
	serial  int64           // of the state that the request left; 0: it took nothing
	allowed bool            // the request
	takes   bool            // the request is allowed, and no peek
}

// never is above all numbers of a reply, and stands for [limits.Never] in states.
const never = 1<<53 - 1

// found takes what take.lua has replied for a off the numbers of a request. ok is false if that cannot be.
func (a *account) readState(t *takeJob, states, waits, serials *[]int64) (s foundState, ok bool) {
	numbers := (*states)[:a.limit.width]
	*states = (*states)[a.limit.width:]
	s.Used = family.Used{At: numbers[0], A: numbers[1]}
	if len(numbers) > 2 {
		s.B = numbers[2]
	}
	s.now, s.asOf = t.now, max(t.now, s.At)
	s.allowed, s.takes = t.allowed, t.allowed && !t.mode.peeks
	switch a.Limit.Algorithm() {
	case limits.AlgorithmFixedWindow:
		s.B = numbers[3]
	case limits.AlgorithmAnchoredWindow:
		s.B = numbers[3] << 1
	case limits.AlgorithmCalendar:
		end := s.At + numbers[2]
		s.B, s.period = numbers[3], calendar.Period{Start: s.At, End: end, Next: end + numbers[4]}
	}
	if a.limit.Lists {
		*waits = (*waits)[copy(s.waits[:a.waits()], *waits):]
	}
	if a.settles {
		s.serial, *serials = (*serials)[0], (*serials)[1:]
	}
	rate := a.Limit.Rate() // a level may be that of a higher maximum, and twice as high as that
	isLevel := !a.limit.Drains ||
		!arith.ProductExceeds(s.A, rate.Units, 2*algorithm.MaxUnits+2, rate.Period.Microseconds())
	return s, isLevel && s.serial < maxSerials
}

// maxSerials is above the serials of states.
const maxSerials = 1 << 17

// decide decides n units of s, which is f or f after the enforced charges. wait is what a log tells.
func (a *account) decide(f *foundState, s family.Used, n, wait int64) (family.Used, family.Told, bool) {
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

// result describes what was decided on a. fits says whether the enforced charges fit; ok is false if f cannot
// be. If the request is allowed, the shadow charges come on top of the enforced ones.
func (a *account) result(f *foundState) (r result, fits, ok bool) {
	after, t, fits := a.decide(f, f.Used, a.Enforced, f.waits[0])
	r.enforced, ok = a.describe(f, after, t, a.Enforced, fits, f.waits[0])
	if ok && a.HasShadow {
		s := f.Used
		if f.allowed {
			s = after
		}
		after, t, shadowFits := a.decide(f, s, a.Shadow, f.waits[1])
		r.shadow, ok = a.describe(f, after, t, a.Shadow, shadowFits, f.waits[1])
		if a.limit.Queues && r.shadow.Ticket != 0 { // a queue returns only its latest taking
			r.enforced.Ticket &= ticketMask
		}
	}
	return r, fits, ok
}

// describe returns the decision of n units of f, which left the state after. A request that has taken nothing is
// told what there is without its units: Remaining and Reset are those of f.
func (a *account) describe(
	f *foundState, after family.Used, t family.Told, n int64, fits bool, wait int64,
) (d limits.Decision, ok bool) {
	if !f.takes {
		untilFits := t.Wait
		if _, t, _ = a.decide(f, f.Used, 0, wait); !fits {
			t.Wait = untilFits
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
	if !f.allowed || !fits || n == 0 {
		return d, true
	}
	if d.Delay = a.limit.Queued(after, n); d.Delay > 0 {
		d.Delay += arith.Wait(ahead)
	}
	if a.settles && f.takes {
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
