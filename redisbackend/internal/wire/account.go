package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/calendar"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Mode is how a request is decided.
type Mode struct {
	Peeks   bool
	Instant int64 // at which the script decides; 0: it reads the server's clock
}

// Verb returns the name of m in take.lua.
func (m Mode) Verb() string {
	if m.Peeks {
		return "peek"
	}
	return "take"
}

// Account is the sum of all charges of one request on one key. It writes the arguments of take.lua
// and reads the reply.
type Account struct {
	backends.Account
	Encoded  *Encoded
	Name     string
	Enforces bool  // some charges are not Shadow, even if they cost no units
	Ticket   int64 // of a concurrency limit: the id of its first unit
	Loan     Loan  // of a concurrency limit that lends its units
	settles  bool  // some charges have Lasts, so they get a ticket
	lasts    int64 // the longest Lasts, in microseconds
}

// units returns the argument of take.lua for the units of a. It is the number of enforced units if
// there is no more to say. Otherwise it is a text: "3,1@60000000" for 3 enforced units and 1 shadow
// unit, with a Lasts of a minute.
func (a *Account) units(m Mode, ids *IDs) any {
	held := !m.Peeks && a.Encoded.Held
	if !held && a.Enforces && !a.HasShadow && !a.settles && !a.Encoded.Values {
		return a.Enforced
	}
	var room [64]byte
	text := a.appendUnits(room[:0])
	if held {
		text = ids.AppendID(append(text, '#'), a.Loan, a.Ticket)
	}
	return string(text)
}

// appendUnits appends that text, without the ids of units that are held.
func (a *Account) appendUnits(to []byte) []byte {
	if a.Enforces {
		to = strconv.AppendInt(to, a.Enforced, 10)
	}
	if a.HasShadow {
		to = strconv.AppendInt(append(to, ','), a.Shadow, 10)
	}
	if a.settles {
		to = strconv.AppendInt(append(to, '@'), a.lasts, 10)
	}
	if a.Encoded.Values {
		var value [8]byte
		binary.BigEndian.PutUint64(value[:], a.Value)
		to = hex.AppendEncode(append(to, '#'), value[:])
	}
	return to
}

// weight returns how much work a taking by a is for Redis: 1 is that of a bucket or a window.
func (a *Account) weight() int {
	if !a.Encoded.Held {
		return a.Encoded.weight
	}
	return a.Encoded.weight + int(a.Held()/UnitsWeight)
}

// waits returns how many waits the reply has for a. Only logs and values have any.
func (a *Account) waits() int {
	switch {
	case !a.Encoded.Lists:
		return 0
	case a.HasShadow:
		return 2
	}
	return 1
}

// Held returns how many units a may come to hold. A charge above the limit never fits.
func (a *Account) Held() int64 {
	most := a.Limit.Burst()
	if !a.Encoded.Held || a.Enforced > most {
		return 0
	}
	n := a.Enforced
	if a.Shadow <= most {
		n += a.Shadow
	}
	return n
}

// Result is the decisions on an account.
type Result struct {
	Enforced, Shadow limits.Decision
}

var notAsked = limits.Decision{Allowed: true, Source: limits.SourceNotAsked}

// NotAsked is the result of an account that no server was asked about.
var NotAsked = Result{Enforced: notAsked, Shadow: notAsked}

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

// unread is the numbers of a reply that no account has cut off yet.
type unread struct {
	now                    int64 // the instant of the decisions
	allowed, takes         bool  // as of foundState
	states, waits, serials []int64
}

// readState cuts the numbers of a off r. It returns false if the script never replies such numbers.
func (a *Account) readState(r *unread) (f foundState, ok bool) {
	numbers := r.states[:a.Encoded.width]
	r.states = r.states[a.Encoded.width:]
	f.Used, f.period = a.Encoded.family.Replied(numbers)
	f.now, f.asOf = r.now, max(r.now, f.At)
	f.allowed, f.takes = r.allowed, r.takes
	if a.Encoded.Lists {
		r.waits = r.waits[copy(f.waits[:a.waits()], r.waits):]
	}
	if a.settles {
		f.serial, r.serials = r.serials[0], r.serials[1:]
	}
	// A level is impossible if it is above twice the largest legal bucket: a key owes at most its
	// maximum, and that may have been larger.
	rate, highest := a.Limit.Rate(), int64(2*algorithm.MaxUnits+2)
	isPossible := !a.Encoded.Drains ||
		!arith.ProductExceeds(f.A, rate.Units, highest, rate.Period.Microseconds())
	if a.Encoded.Values { // B is 1 if the charged value is one of the A values
		isPossible = isPossible && f.B <= 1 && f.B <= f.A
	}
	return f, isPossible && f.serial < maxSerials
}

// maxSerials is above all serials: see serial.lua.
const maxSerials = 1 << 17

// decide decides n units of the state s: f as it was found, or f after the enforced charges. wait
// is how long a log says to wait.
func (a *Account) decide(
	f *foundState, s family.Used, n, wait int64,
) (after family.Used, told family.Told, fits bool) {
	switch {
	case a.Encoded.Lists:
		fits = n == 0 || n <= a.Encoded.Max-s.A || a.Encoded.Values && s.B > 0
		if fits && n > 0 {
			if a.Encoded.Values { // B is 1 for a known value, which takes no unit
				n, s.B = 1-s.B, 1
			}
			s.At, s.A = f.asOf, s.A+n
		}
		t := family.Told{InUse: s.A, Wait: wait}
		if s.A > 0 {
			t.Reset = max(0, s.At+a.Encoded.Period-f.asOf)
		}
		return s, t, fits
	case f.period.End > 0:
		return a.Encoded.DecideIn(f.period, s, n, f.asOf)
	}
	return a.Encoded.family.Decide(s, n, f.asOf, a.Value, nil)
}

// decisions returns the decisions on a. fits reports whether the enforced charges fit. ok is false
// if f is impossible. If the request is allowed, the shadow charges come on top of the enforced
// ones.
func (a *Account) decisions(f *foundState) (r Result, fits, ok bool) {
	after, t, fits := a.decide(f, f.Used, a.Enforced, f.waits[0])
	r.Enforced, ok = a.describe(f, after, t, a.Enforced, fits, f.waits[0])
	if ok && a.HasShadow {
		s := f.Used
		if f.allowed {
			s = after
		}
		after, t, shadowFits := a.decide(f, s, a.Shadow, f.waits[1])
		r.Shadow, ok = a.describe(f, after, t, a.Shadow, shadowFits, f.waits[1])
		if a.Encoded.Queues && r.Shadow.Ticket != 0 {
			// A queue refunds only its latest taking. So the ticket of the other loses its serial.
			r.Enforced.Ticket &= ticketMask
		}
	}
	return r, fits, ok
}

// describe returns the decision on n units of f, which left the state after. A request that took
// nothing gets the Remaining and ResetAfter of f itself.
func (a *Account) describe(
	f *foundState, after family.Used, t family.Told, n int64, fits bool, wait int64,
) (d limits.Decision, ok bool) {
	if !f.takes {
		untilFits := t.Wait // of n units, which f itself does not know
		if _, t, _ = a.decide(f, f.Used, 0, wait); !fits {
			t.Wait = untilFits
		}
	}
	if !fits && n > a.Encoded.Max && !a.Encoded.Bans {
		t.Wait = 0 // it never fits, and Describe reads no wait
	}
	ahead := f.asOf - f.now
	if a.Encoded.Bans && t.InUse == 0 { // a row of bans without a period, which alone is ahead
		ahead = 0
	}
	t.Reset, t.Wait = t.Reset+ahead, t.Wait+ahead
	if t.Reset < 0 || t.Wait < 0 || max(t.Reset, t.Wait) > longestWait ||
		!fits && t.Wait == 0 && n <= a.Encoded.Max {
		return d, false
	}
	a.Encoded.Describe(&d, n, t, fits)
	d.At = f.now
	if !f.allowed || !fits || n == 0 {
		return d, true
	}
	if d.Delay = a.Encoded.Queued(after, n); d.Delay > 0 {
		d.Delay += arith.Wait(ahead)
	}
	if a.Encoded.Values && f.takes {
		d.Ticket = f.asOf
	} else if a.settles && f.takes {
		at := f.asOf
		if a.Encoded.Fades {
			at = after.At / a.Encoded.Period // the number of the window: see settle.lua
		}
		d.Ticket = ticketOf(at, f.serial)
	}
	return d, true
}

// longestWait is above every wait, in microseconds. All limits share it, since a key may have been
// charged under another limit. A window may owe for 200 years if its limit was lowered, a bucket
// may drain for 100, and a step back of the clock adds a period.
const longestWait = int64(202 * 366 * 24 * time.Hour / time.Microsecond)

// giveBack returns the ending that gives back what a took, with the result r. It returns false if
// there is nothing to give back. Units of concurrency limits are released instead.
//
// The instant of a taking is that of its reply. If the clock has stepped back, the taking counts
// from a later instant, and less is returned.
func (a *Account) giveBack(r *Result) (e Ending, ok bool) {
	e = Ending{Name: a.Name, Encoded: a.Encoded, givesBack: true}
	e.Limit, e.Value, e.Taken, e.Ticket = a.Limit, a.Value, a.Enforced, r.Enforced.At
	reset := r.Enforced.ResetAfter
	if a.HasShadow && r.Shadow.Allowed {
		e.Taken, reset = e.Taken+a.Shadow, r.Shadow.ResetAfter
	}
	if a.Encoded.Queues { // a queue knows takings by when their units have drained
		e.Ticket += reset.Microseconds()
	}
	e.Taken = min(e.Taken, 1<<53) // only bans take more, and their counts are full by then
	return e, e.Taken > 0 && !a.Encoded.Held
}
