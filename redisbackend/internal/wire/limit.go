package wire

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/calendar"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
)

// Supports reports whether scripts know the algorithm of a limit.
func Supports(l limits.Limit) bool { return algorithm.Of(l.Algorithm()).Redis.Letter != 0 }

// Family is the Lua file of a family, and the letters of its algorithms.
type Family struct{ File, Letters string }

// Families returns the families in the order of the algorithms.
func Families() (found []Family) {
	for _, row := range algorithm.All() {
		r := &row.Redis
		i := slices.IndexFunc(found, func(f Family) bool { return f.File == r.File })
		switch {
		case r.File == "": // scripts do not know it
		case i < 0:
			found = append(found, Family{r.File, string(r.Letter)})
		default:
			found[i].Letters += string(r.Letter)
		}
	}
	return found
}

// Encoded is a limit as scripts read it.
type Encoded struct {
	family.Numbers
	EndsWeight int // cost of a settlement, in keys

	limit    limits.Limit
	lends    time.Duration // for how long units are lent; 0: the limit lends none
	family   family.Compiled
	width    int    // numbers of a state in a reply
	weight   int    // cost of a taking, in keys
	text     any    // a string, "t10/600k 10 600000 1": as states name it, maximum, P, Q
	takesOne string // the form of a request that takes one unit

	from, until int64 // of a calendar: valid between these instants, Unix microseconds
}

// Limits caches the encoded forms of the limits in use.
type Limits struct {
	cache    [256]atomic.Pointer[Encoded]
	holdTime time.Duration
	clock    calendarClock
}

// Encode returns the encoded form of a limit, or an error if it is invalid. instant is when the
// script decides; 0: it reads the server's clock.
func (ls *Limits) Encode(l limits.Limit, instant int64) (*Encoded, error) {
	return ls.encode(l, 0, instant)
}

// encode is Encode. lends is for how long a concurrency limit lends units; 0: it lends none.
func (ls *Limits) encode(l limits.Limit, lends time.Duration, instant int64) (*Encoded, error) {
	entry := &ls.cache[cacheIndex(l)]
	e := entry.Load()
	if e != nil && e.limit == l && e.lends == lends &&
		(e.until == 0 || ls.clock.isWithin(e.from, e.until, instant)) {
		return e, nil
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	e = encode(l, cmp.Or(lends, ls.holdTime))
	e.lends = lends
	if l.Period() != "" {
		e = withPeriods(e, ls.clock.now(instant))
	}
	entry.Store(e)
	return e, nil
}

// Learn reports whether err comes from a server whose clock is in none of the calendar periods that
// it was sent. If so, the next encoded forms have the right ones.
func (ls *Limits) Learn(err error) bool { return ls.clock.learn(err) }

func cacheIndex(l limits.Limit) uint8 {
	rate := l.Rate()
	h := calendar.Hash(string(l.Period())) ^ uint64(rate.Units) ^
		bits.RotateLeft64(uint64(rate.Period), 16) ^
		bits.RotateLeft64(uint64(l.Burst()), 32) ^ uint64(l.Algorithm())<<48
	return uint8(h * 0x9e3779b97f4a7c15 >> 56)
}

// encode returns the encoded form of a legal limit. hold is the time for which a concurrency limit
// holds a unit.
func encode(l limits.Limit, hold time.Duration) *Encoded {
	compiled, numbers := family.Compile(l)
	row := algorithm.Of(l.Algorithm())
	scripted := compiled.Scripted()
	if numbers.Held {
		scripted[0] = hold.Microseconds()
	}
	text := stateText(row, l.Burst(), scripted)
	for _, n := range append([]int64{l.Burst()}, scripted...) {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	e := &Encoded{
		Numbers: numbers, limit: l, family: compiled, width: row.Redis.Numbers,
		weight: row.Redis.Takes, EndsWeight: row.Redis.Ends, text: string(text),
		takesOne: "take " + string(text) + "=1",
	}
	if numbers.Values { // a script reads and writes them all
		values := int(numbers.Max / valuesWeight)
		e.weight, e.EndsWeight = e.weight+values, e.EndsWeight+values
	}
	return e
}

// stateText returns a limit as states have it, "t10/600k": its letter, its maximum, P, and Q unless
// that is the maximum, or 1 for buckets. See state.lua.
func stateText(row *algorithm.Algorithm, most int64, numbers []int64) []byte {
	implied := most
	if row.Drains {
		implied = 1
	}
	if len(numbers) == 2 && numbers[1] == implied {
		numbers = numbers[:1]
	}
	text := strconv.AppendInt([]byte{row.Redis.Letter}, most, 10)
	for _, n := range numbers {
		text = appendAmount(append(text, '/'), n)
	}
	return text
}

// amounts are the letters for a day, an hour, a minute, a second and a thousand microseconds.
var amounts = [...]struct {
	letter byte
	of     int64
}{
	{'d', 24 * 3600e6}, {'h', 3600e6}, {'m', 60e6}, {'s', 1e6}, {'k', 1e3},
}

// appendAmount appends a number as "90s", "h" for an hour, or in full.
func appendAmount(to []byte, n int64) []byte {
	for _, a := range amounts {
		if n >= a.of && n%a.of == 0 {
			if n > a.of {
				to = strconv.AppendInt(to, n/a.of, 10)
			}
			return append(to, a.letter)
		}
	}
	return strconv.AppendInt(to, n, 10)
}

// valuesWeight is how many values weigh as much as a key.
const valuesWeight = 32
