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
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// account is the sum of all charges of one Take on one key. It writes the arguments of take.lua
// and reads the reply.
type account struct {
	backends.Account
	name     string
	limit    *encoded
	enforces bool   // some charges are not Shadow, even if they cost no units
	settles  bool   // some charges have Lasts, so they get a ticket
	lasts    int64  // the longest Lasts, in microseconds
	ticket   int64  // of a concurrency limit: the id of its first unit
	digest   string // of the value, of a limit that counts values
}

// accountsOf merges charges into the accounts of r, and sets the account of each charge.
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
		added := account{Account: a, name: b.name(limit.Kind, a.Scope, a.Key), limit: limit}
		if limit.Values {
			added.digest = b.digest(a.Scope, a.Key, a.Value)
		}
		r.accounts = append(r.accounts, added)
	}
	for i := range charges {
		a := &r.accounts[r.accountOf[i]]
		a.enforces = a.enforces || !charges[i].Shadow
		if lasts := charges[i].Lasts; lasts > 0 && !a.limit.Values {
			a.settles, a.lasts = true, max(a.lasts, lasts.Microseconds())
		}
	}
	return nil
}

// formOf returns a text that is equal for requests that differ only in their keys.
func formOf(accounts []account, mode mode) string {
	a := &accounts[0]
	if len(accounts) == 1 && !mode.peeks && a.Enforced == 1 && !a.HasShadow && !a.settles &&
		!a.limit.Values {
		return a.limit.takesOne
	}
	text := append(make([]byte, 0, 64*len(accounts)), mode.name()...)
	for i := range accounts {
		text = append(append(append(text, ' '), accounts[i].limit.text.(string)...), '=')
		text = accounts[i].appendUnits(text)
	}
	return string(text)
}

// units returns the argument of take.lua for the units of a, an account of t. It is the number of
// enforced units if there is no more to say. Otherwise it is a text: "3,1@60000000" for 3 enforced
// units and 1 shadow unit, with a Lasts of a minute.
func (a *account) units(t *takeJob) any {
	held := !t.mode.peeks && a.limit.Held
	if !held && a.enforces && !a.HasShadow && !a.settles && !a.limit.Values {
		return a.Enforced
	}
	var room [64]byte
	text := a.appendUnits(room[:0])
	if held {
		text = t.backend.holds.appendID(append(text, '#'), a.ticket)
	}
	return string(text)
}

// appendUnits appends that text, without the ids of units that are held.
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
	if a.limit.Values {
		to = append(append(to, '#'), a.digest...)
	}
	return to
}

// weight returns how much work a taking by a is for Redis: 1 is that of a bucket or a window.
func (a *account) weight() int {
	if !a.limit.Held {
		return a.limit.weight
	}
	return a.limit.weight + int(a.held()/line.UnitsWeight)
}

// waits returns how many waits the reply has for a. Only logs have any.
func (a *account) waits() int {
	switch {
	case !a.limit.Lists:
		return 0
	case a.HasShadow:
		return 2
	}
	return 1
}

// held returns how many units a may come to hold. A charge above the limit never fits.
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

// take.lua replies the states that a request found, and whether it was allowed. Package family
// computes from them what remains and how long to wait, as package memory does. That also checks
// whether the request was rightly allowed.

// result is the decisions on an account.
type result struct {
	enforced, shadow limits.Decision
}

// foundState is the state that a request found for a key, under the limit that it charged.
type foundState struct {
	family.Used
	now     int64           // the instant of the decision
	asOf    int64           // now, or the later instant of the state if the clock stepped back
	period  calendar.Period // of a calendar
	waits   [2]int64        // of a log: for the enforced and for the shadow charges
	serial  int64           // of the state that the request left; 0: it took nothing
	allowed bool            // the request was allowed
	takes   bool            // the request was allowed, and is no peek
}

// readState cuts the numbers of a off the front of states, waits and serials. These are the numbers
// in the reply to t that no earlier account has cut off. It returns false if the script never
// replies such numbers.
func (a *account) readState(t *takeJob, states, waits, serials *[]int64) (f foundState, ok bool) {
	numbers := (*states)[:a.limit.width]
	*states = (*states)[a.limit.width:]
	f.Used = family.Used{At: numbers[0], A: numbers[1]}
	if len(numbers) > 2 {
		f.B = numbers[2]
	}
	f.now, f.asOf = t.Now, max(t.Now, f.At)
	f.allowed, f.takes = t.allowed, t.allowed && !t.mode.peeks
	switch a.Limit.Algorithm() {
	case limits.AlgorithmFixedWindow:
		f.B = numbers[3]
	case limits.AlgorithmAnchoredWindow:
		f.B = numbers[3] << 1 // bit 0 stays clear: takings do not move the start of the window
	case limits.AlgorithmCalendar: // behind At and A: length, debt, length of the next period
		end := f.At + numbers[2]
		f.B = numbers[3]
		f.period = calendar.Period{Start: f.At, End: end, Next: end + numbers[4]}
	}
	if a.limit.Lists {
		*waits = (*waits)[copy(f.waits[:a.waits()], *waits):]
	}
	if a.settles {
		f.serial, *serials = (*serials)[0], (*serials)[1:]
	}
	// A level is impossible if it is above twice the largest legal bucket: a key owes at most its
	// maximum, and that may have been larger.
	rate, highest := a.Limit.Rate(), int64(2*algorithm.MaxUnits+2)
	isPossible := !a.limit.Drains ||
		!arith.ProductExceeds(f.A, rate.Units, highest, rate.Period.Microseconds())
	if a.limit.Values { // B is 1 if the charged value is one of the A values
		isPossible = isPossible && f.B <= 1 && f.B <= f.A
	}
	return f, isPossible && f.serial < maxSerials
}

// maxSerials is above all serials: see serial.lua.
const maxSerials = 1 << 17

// decide decides n units of the state s: f as it was found, or f after the enforced charges. wait
// is how long a log says to wait.
func (a *account) decide(
	f *foundState, s family.Used, n, wait int64,
) (after family.Used, told family.Told, fits bool) {
	switch {
	case a.limit.Lists:
		fits = n == 0 || n <= a.limit.Max-s.A || a.limit.Values && s.B > 0
		if fits && n > 0 {
			if a.limit.Values { // B is 1 for a known value, which takes no unit
				n, s.B = 1-s.B, 1
			}
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

// decisions returns the decisions on a. fits reports whether the enforced charges fit. ok is false
// if f is impossible. If the request is allowed, the shadow charges come on top of the enforced
// ones.
func (a *account) decisions(f *foundState) (r result, fits, ok bool) {
	after, t, fits := a.decide(f, f.Used, a.Enforced, f.waits[0])
	r.enforced, ok = a.describe(f, after, t, a.Enforced, fits, f.waits[0])
	if ok && a.HasShadow {
		s := f.Used
		if f.allowed {
			s = after
		}
		after, t, shadowFits := a.decide(f, s, a.Shadow, f.waits[1])
		r.shadow, ok = a.describe(f, after, t, a.Shadow, shadowFits, f.waits[1])
		if a.limit.Queues && r.shadow.Ticket != 0 {
			// A queue refunds only its latest taking. So the ticket of the other loses its serial.
			r.enforced.Ticket &= ticketMask
		}
	}
	return r, fits, ok
}

// describe returns the decision on n units of f, which left the state after. A request that took
// nothing gets the Remaining and ResetAfter of f itself.
func (a *account) describe(
	f *foundState, after family.Used, t family.Told, n int64, fits bool, wait int64,
) (d limits.Decision, ok bool) {
	if !f.takes {
		untilFits := t.Wait // of n units, which f itself does not know
		if _, t, _ = a.decide(f, f.Used, 0, wait); !fits {
			t.Wait = untilFits
		}
	}
	if !fits && n > a.limit.Max && !a.limit.Bans {
		t.Wait = 0 // it never fits, and Describe reads no wait
	}
	ahead := f.asOf - f.now
	t.Reset, t.Wait = t.Reset+ahead, t.Wait+ahead
	if t.Reset < 0 || t.Wait < 0 || max(t.Reset, t.Wait) > longestWait ||
		!fits && t.Wait == 0 && n <= a.limit.Max {
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
	if a.limit.Values && f.takes {
		d.Ticket = f.asOf
	} else if a.settles && f.takes {
		at := f.asOf
		if a.Limit.Algorithm() == limits.AlgorithmSlidingWindow {
			at = after.At / a.limit.Period // the number of the window: see settle.lua
		}
		d.Ticket = ticketOf(at, f.serial)
	}
	return d, true
}

// longestWait is above every wait, in microseconds. All limits share it, since a key may have been
// charged under another limit. A window may owe for 200 years if its limit was lowered, a bucket
// may drain for 100, and a step back of the clock adds a period.
const longestWait = int64(202 * 366 * 24 * time.Hour / time.Microsecond)
