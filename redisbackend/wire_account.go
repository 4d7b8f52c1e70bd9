package redisbackend

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// account is the sum of all charges of one Take on one key: what take.lua is told of it, and
// how its reply is read.
type account struct {
	limits.Account
	name     string
	limit    *encoded
	enforces bool  // it has charges that are not Shadow, perhaps of no units
	settles  bool  // it has charges that last, and gets a ticket
	lasts    int64 // the longest of them, microseconds
	ticket   int64 // of a concurrency limit: the first id of its units
}

// result is what was decided on an account.
type result struct {
	enforced, shadow limits.Decision
}

// accountsOf merges charges into the accounts of r, and sets the owner of each charge.
func (b *Backend) accountsOf(charges []limits.Charge, r *request, mode mode) (err error) {
	r.merged, r.owners, err = limits.Accounts(charges, r.merged, r.owners)
	if err != nil {
		return fmt.Errorf("redisbackend: %w", err)
	}
	for _, a := range r.merged {
		limit, err := b.encode(a.Limit, mode.instant)
		if err != nil {
			return fmt.Errorf("redisbackend: limit of scope %q: %w", a.Scope, err)
		}
		if limit.Held {
			r.holds = true
			r.accounts = append(r.accounts, b.heldAccount(a, limit, mode))
			continue
		}
		r.accounts = append(r.accounts, account{Account: a, name: b.name(a.Scope, a.Key), limit: limit})
	}
	for i := range charges {
		a := &r.accounts[r.owners[i]]
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
func (a *account) units(of *ask) any {
	held := !of.mode.peeks && a.limit.Held
	if !held && a.enforces && !a.HasShadow && !a.settles {
		return a.Enforced
	}
	var room [64]byte
	text := a.appendUnits(room[:0])
	if held {
		text = of.backend.holds.appendID(append(text, '#'), a.ticket)
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
	return algorithms[a.Limit.Algorithm()].takes + int(a.held()/unitsWeight)
}

// width returns how many numbers take.lua replies for a.
func (a *account) width() int {
	if a.HasShadow {
		return 2 * a.numbers()
	}
	return a.numbers()
}

// numbers returns how many numbers of a reply make a decision on a.
func (a *account) numbers() int {
	n := 3
	if a.limit.Queues {
		n++
	}
	if a.settles {
		n += 2
	}
	return n
}

// read appends the result of each account, from what take.lua has replied for them.
func read(now int64, numbers []int64, accounts []account, all []result) []result {
	for i := range accounts {
		a, s := &accounts[i], result{}
		s.enforced, numbers = a.decision(now, numbers), numbers[a.numbers():]
		if a.HasShadow {
			s.shadow, numbers = a.decision(now, numbers), numbers[a.numbers():]
		}
		all = append(all, s)
	}
	return all
}

// never stands for [limits.Never] in replies of take.lua.
const never = 1<<53 - 1

// decision reads the numbers of a decision on a: remaining, reset after, and effective window or
// minus retry after; the delay of a queue; and the parts of a ticket.
func (a *account) decision(now int64, numbers []int64) limits.Decision {
	d := limits.Decision{Allowed: numbers[2] >= 0, Remaining: numbers[0], ResetAfter: arith.Wait(numbers[1]), At: now}
	switch {
	case d.Allowed:
		d.EffectiveWindow = arith.Wait(numbers[2])
	case numbers[2] == -never:
		d.RetryAfter, d.EffectiveWindow = limits.Never, limits.Never
	default:
		d.RetryAfter = arith.Wait(-numbers[2])
		d.EffectiveWindow = d.RetryAfter
	}
	if a.limit.Queues {
		d.Delay = arith.Wait(numbers[3])
	}
	if a.limit.Held {
		d.EffectiveWindow = limits.Never
	}
	if n := a.numbers(); a.settles {
		d.Ticket = ticketOf(numbers[n-2], numbers[n-1])
	}
	return d
}

const (
	// longestWait is above every wait that a script replies, in microseconds. It is the same for
	// all limits, since a key may have been charged under another one: a window may owe for 200
	// years if its limit was lowered, see debt.lua, a bucket may drain for 100, and a step back of
	// the clock adds a period.
	longestWait = int64(202 * 366 * 24 * time.Hour / time.Microsecond)

	// guessedWait is that of concurrency limits, see concurrent.lua.
	guessedWait = int64(time.Second / time.Microsecond)
)

// arePossible reports whether take.lua may have replied numbers for accounts.
func arePossible(accounts []account, numbers []int64) bool {
	for i := range accounts {
		a := &accounts[i]
		if !a.isPossible(a.Enforced, numbers) || a.HasShadow && !a.isPossible(a.Shadow, numbers[a.numbers():]) {
			return false
		}
		numbers = numbers[a.width():]
	}
	return true
}

// isPossible reports whether take.lua may have replied numbers for a charge of so many units.
func (a *account) isPossible(units int64, numbers []int64) bool {
	most := a.Limit.Burst()
	remaining, reset, window := numbers[0], numbers[1], numbers[2]
	if window == -never {
		if window = 0; units <= most || a.limit.Bans {
			return false
		}
	}
	longest, rest := longestWait, numbers[3:a.numbers()]
	if a.limit.Held {
		longest = guessedWait
	}
	isPossible := remaining >= 0 && remaining <= most &&
		reset >= 0 && max(reset, window) <= longest && window >= -longest
	if a.limit.Queues {
		isPossible = isPossible && rest[0] >= 0 && rest[0] <= longest
		rest = rest[1:]
	}
	if a.settles {
		isPossible = isPossible && min(rest[0], rest[1]) >= 0 && rest[0] <= never && rest[1] < serials
	}
	return isPossible
}

// serials is above the serials of states.
const serials = 1 << 17

// isDenied reports whether numbers deny their request. Those of shadow charges do not, even on a
// key that is banned.
func isDenied(accounts []account, numbers []int64) bool {
	for i := range accounts {
		a := &accounts[i]
		if a.enforces && numbers[2] < 0 {
			return true
		}
		numbers = numbers[a.width():]
	}
	return false
}
