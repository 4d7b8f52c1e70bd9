package redisbackend

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
)

// algorithms are the letters by which scripts and states name algorithms, and the files of their families.
// Those that are asked for most come first in each script.
var algorithms = [...]struct {
	letter  byte
	file    string
	numbers int // of a state in a reply, see take.lua
	takes   int // how many keys a taking counts as in a call
	ends    int // and a settlement: a bucket remembers levels; a script ends early if it has to write much of a log
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
}

const version = '1'

// encoded is a limit and the form in which scripts read it.
type encoded struct {
	family.Numbers
	limit    limits.Limit
	family   family.Compiled
	width    int    // how many numbers a state has in a reply
	weight   int    // how many keys a taking counts as in a call
	text     any    // version and algorithm, capacity in units, P and Q: see state.lua
	takesOne string // the form of a request that takes one unit by it

	from, until int64 // of a calendar the instants, microseconds since the Unix epoch, for which it is
}

// encodedLimits caches the encoded forms of the limits in use.
type encodedLimits [256]atomic.Pointer[encoded]

// encode returns the encoded form of a limit, or an error if it is invalid. The instant is that which scripts are
// given, 0 for the server's.
func (b *Bare) encode(l limits.Limit, instant int64) (*encoded, error) {
	entry := &b.limits[cacheIndex(l)]
	if e := entry.Load(); e != nil && e.limit == l && (e.until == 0 || b.calendarClock.isWithin(e.from, e.until, instant)) {
		return e, nil
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	e := encode(l, b.holds.holdTime)
	if l.Algorithm() == limits.AlgorithmCalendar {
		e = withPeriods(e, b.calendarClock.now(instant))
	}
	entry.Store(e)
	return e, nil
}

func cacheIndex(l limits.Limit) uint8 {
	h := hashOf(string(l.Period())) ^ uint64(l.Rate().Units) ^ bits.RotateLeft64(uint64(l.Rate().Period), 16) ^ bits.RotateLeft64(uint64(l.Burst()), 32) ^ uint64(l.Algorithm())<<48
	return uint8(h * 0x9e3779b97f4a7c15 >> 56)
}

// hashOf returns a number of a text, the same in every process; 0 of "".
func hashOf(text string) (h uint64) {
	for _, c := range []byte(text) {
		h = (h ^ uint64(c) + 1) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// encode returns the encoded form of a legal limit. Units of a concurrency limit are held for the time hold
// unless they are renewed.
func encode(l limits.Limit, hold time.Duration) *encoded {
	rate := l.Rate()
	p, q := rate.Period.Microseconds(), rate.Units
	switch l.Algorithm() {
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket, limits.AlgorithmLeakyQueue:
		g := gcd(p, q)
		p, q = p/g, q/g
	case limits.AlgorithmConcurrent:
		p, q = hold.Microseconds(), 1
	case limits.AlgorithmBan:
		q = l.Lasting().Microseconds()
	case limits.AlgorithmCalendar:
		q = int64(hashOf(string(l.Period())) >> 12)
	}
	a := &algorithms[l.Algorithm()]
	text := fmt.Sprintf("%c%c %d %d %d", version, a.letter, l.Burst(), p, q)
	compiled, numbers := family.Compile(l)
	return &encoded{
		Numbers: numbers, limit: l, family: compiled, width: a.numbers, weight: a.takes, text: text,
		takesOne: "take " + text + "=1",
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
