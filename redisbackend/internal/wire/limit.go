package wire

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
)

// algorithms has for each algorithm its letter in scripts and states, and the file of its family.
// Scripts look for families in this order, so frequent ones come first.
var algorithms = [...]struct {
	letter  byte
	file    string
	numbers int // of a state in a reply: see take.lua
	takes   int // cost of a taking, in keys
	ends    int // cost of a settlement, in keys
}{
	limits.AlgorithmTokenBucket:    {'t', "bucket", 3, 1, 2},
	limits.AlgorithmLeakyBucket:    {'l', "bucket", 3, 1, 2},
	limits.AlgorithmLeakyQueue:     {'q', "bucket", 3, 1, 1},
	limits.AlgorithmFixedWindow:    {'f', "fixed_window", 4, 1, 1},
	limits.AlgorithmSlidingWindow:  {'s', "sliding_window", 3, 1, 1},
	limits.AlgorithmSlidingLog:     {'g', "sliding_log", 2, 8, 16},
	limits.AlgorithmAnchoredWindow: {'n', "anchored_window", 4, 1, 1},
	limits.AlgorithmConcurrent:     {'c', "concurrent", 3, 1, 1},
	limits.AlgorithmBan:            {'b', "ban", 3, 1, 1},
	limits.AlgorithmCalendar:       {'k', "calendar", 5, 1, 1},
	limits.AlgorithmDistinct:       {'d', "distinct", 3, 8, 8},
	limits.AlgorithmGrowingBan:     {'w', "growing_ban", 3, 1, 1},
}

const version = '1'

// Supports reports whether scripts know the algorithm of a limit.
func Supports(l limits.Limit) bool {
	a := int(l.Algorithm())
	return a < len(algorithms) && algorithms[a].letter != 0
}

// Family is the Lua file of a family, and the letters of its algorithms.
type Family struct{ File, Letters string }

// Families returns the families in the order of the algorithms.
func Families() (found []Family) {
	for _, a := range algorithms {
		i := slices.IndexFunc(found, func(f Family) bool { return f.File == a.file })
		switch {
		case a.file == "": // a number that no algorithm has
		case i < 0:
			found = append(found, Family{a.file, string(a.letter)})
		default:
			found[i].Letters += string(a.letter)
		}
	}
	return found
}

// Encoded is a limit as scripts read it.
type Encoded struct {
	family.Numbers
	EndsWeight int // cost of a settlement, in keys

	limit    limits.Limit
	family   family.Compiled
	width    int    // numbers of a state in a reply
	weight   int    // cost of a taking, in keys
	text     any    // a string, "1t 10 600000 1": version, letter, maximum, P, Q; see state.lua
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
	entry := &ls.cache[cacheIndex(l)]
	e := entry.Load()
	if e != nil && e.limit == l &&
		(e.until == 0 || ls.clock.isWithin(e.from, e.until, instant)) {
		return e, nil
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	e = encode(l, ls.holdTime)
	if l.Algorithm() == limits.AlgorithmCalendar {
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
	h := hashOf(string(l.Period())) ^ uint64(rate.Units) ^
		bits.RotateLeft64(uint64(rate.Period), 16) ^
		bits.RotateLeft64(uint64(l.Burst()), 32) ^ uint64(l.Algorithm())<<48
	return uint8(h * 0x9e3779b97f4a7c15 >> 56)
}

// hashOf returns a hash of a text that is the same in every process. The hash of "" is 0.
func hashOf(text string) (h uint64) {
	for _, c := range []byte(text) {
		h = (h ^ uint64(c) + 1) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// encode returns the encoded form of a legal limit. hold is the time for which a concurrency limit
// holds a unit.
func encode(l limits.Limit, hold time.Duration) *Encoded {
	rate := l.Rate()
	p, q := rate.Period.Microseconds(), rate.Units
	switch l.Algorithm() {
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket, limits.AlgorithmLeakyQueue:
		g := gcd(p, q)
		p, q = p/g, q/g
	case limits.AlgorithmConcurrent:
		p, q = hold.Microseconds(), 1
	case limits.AlgorithmBan, limits.AlgorithmGrowingBan:
		q = l.Lasting().Microseconds()
	case limits.AlgorithmCalendar:
		q = int64(hashOf(string(l.Period())) >> 12)
	}
	a := &algorithms[l.Algorithm()]
	text := fmt.Sprintf("%c%c %d %d %d", version, a.letter, l.Burst(), p, q)
	if a.letter == 'w' {
		text += fmt.Sprintf(" %d", l.Longest().Microseconds())
	}
	compiled, numbers := family.Compile(l)
	e := &Encoded{
		Numbers: numbers, limit: l, family: compiled, width: a.numbers, weight: a.takes,
		EndsWeight: a.ends, text: text, takesOne: "take " + text + "=1",
	}
	if numbers.Values { // a script reads and writes them all
		values := int(numbers.Max / valuesWeight)
		e.weight, e.EndsWeight = e.weight+values, e.EndsWeight+values
	}
	return e
}

// valuesWeight is how many values weigh as much as a key.
const valuesWeight = 32

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
