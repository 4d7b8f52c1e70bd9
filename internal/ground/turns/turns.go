// Package turns promises turns to denied requests. A denial has a least wait, which is right for a
// client that is alone. Fifty clients that are told the same least wait come back together, and
// most of them are denied again. So each is told a wait of its own: the end of a line that this
// process keeps for each key. A promise takes nothing from the limit, and is forgotten when it is
// past. DESIGN 14 has the rules.
package turns

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/keyhash"
	"github.com/weir-go/weir/limits"
)

const (
	least, most = 2 * time.Second, 24 * time.Hour

	farthest      = int64(most / time.Microsecond)
	mostInstances = 1_000_000
)

// Validate returns an error if a table cannot promise so far ahead. 0 is legal: no table.
func Validate(reach time.Duration) error {
	if reach != 0 && (reach < least || reach > most) {
		return fmt.Errorf("must be 2s to 24h, or 0 for no promises (got %v)", reach)
	}
	return nil
}

// Denial is a denial by one rule.
type Denial struct {
	Scope, Key string
	Limit      limits.Limit
	Cost       int64
	Instances  int // how many processes promise turns of the limit; below 2: this one alone
	At         int64
	Wait       time.Duration // the least wait
}

// Table has the ends of lines, in sets of four. It is safe for concurrent use.
type Table struct {
	reach  int64 // microseconds
	hasher keyhash.Hasher
	sets   [sets]atomic.Pointer[set] // nil until a key of the set is denied
}

const (
	sets = 1 << 12
	ways = 4
)

// set is the lines that share one place of the table.
type set struct {
	mu    sync.Mutex
	lines [ways]line
}

// line is the last turn that was promised to requests of a key.
type line struct {
	hash uint64 // of scope and key; 0: empty
	turn
}

// New returns a table that tells no wait beyond reach, which is legal, or nil if reach is 0.
func New(reach time.Duration) *Table {
	if reach == 0 {
		return nil
	}
	return &Table{reach: reach.Microseconds(), hasher: keyhash.New()}
}

// promises reports whether limits of this kind have turns. Concurrency limits have none, since the
// end of requests is not known, and bans have none, since a key is fresh after its ban.
func promises(limit limits.Limit) bool {
	kind := algorithm.Of(limit.Algorithm()).Kind
	return kind == algorithm.Rates || kind == algorithm.Values
}

// Denials are the denials of one request by several rules.
type Denials struct {
	table  *Table
	n      int
	latest Denial        // the one whose turn is latest
	wait   time.Duration // until that turn; set once there are two
}

// Of returns no denials yet.
func (t *Table) Of() Denials { return Denials{table: t} }

// Add adds a denial.
func (ds *Denials) Add(d *Denial) {
	ds.n++
	switch ds.n {
	case 1:
		ds.latest = *d
		return
	case 2:
		ds.wait = ds.table.next(&ds.latest, false)
	}
	if wait := ds.table.next(d, false); wait > ds.wait {
		ds.latest, ds.wait = *d, wait
	}
}

// Promise promises the request the latest of the turns, and returns the wait until then: 0 if there
// are no denials. Only the line of that turn grows: the other rules admit the request sooner.
func (ds *Denials) Promise() time.Duration {
	if ds.n == 0 {
		return 0
	}
	return ds.table.next(&ds.latest, true)
}

// next returns the wait of a request that is next in the line of its key, and adds it to the line
// if told to. The last second before reach has no turns, so requests that find no room in the line,
// and are told reach, come after those that have turns. A line that ends later than reach is of
// before a step back of the clock. One that ends in the last second is not: denials may arrive here
// in another order than they were decided.
func (t *Table) next(d *Denial, add bool) time.Duration {
	natural := d.At + d.Wait.Microseconds()
	last := d.At + t.reach - second
	if d.Wait == limits.Never || natural > last || !promises(d.Limit) {
		return d.Wait
	}
	hash := t.hasher.Of(d.Scope, d.Key)
	s := t.set(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.find(hash, last+second)
	before := turn{at: math.MinInt64 / 2}
	if l.hash == hash && l.at > d.At && l.at <= last+second { // otherwise it is forgotten
		before = l.turn
	}
	own := after(before, natural, d)
	if own.at > last {
		return time.Duration(t.reach) * time.Microsecond
	}
	if add {
		*l = line{hash, own}
	}
	return time.Duration(own.at-d.At) * time.Microsecond
}

// Forget empties the line of a key. t may be nil.
func (t *Table) Forget(scope, key string) {
	if t == nil {
		return
	}
	hash := t.hasher.Of(scope, key)
	s := t.set(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.find(hash, math.MaxInt64); l.hash == hash {
		*l = line{}
	}
}

// find returns the line of a key, or the one that gives way to it: one that ends after latest, since
// the clock has stepped back, or the line that ends first.
func (s *set) find(hash uint64, latest int64) *line {
	gives, first := &s.lines[0], int64(math.MaxInt64)
	for i := range s.lines {
		l := &s.lines[i]
		if l.hash == hash {
			return l
		}
		end := l.at
		if end > latest {
			end = math.MinInt64
		}
		if end < first {
			gives, first = l, end
		}
	}
	return gives
}

// set returns the set for a hash. It makes the set if necessary.
func (t *Table) set(hash uint64) *set {
	at := &t.sets[hash%sets]
	if s := at.Load(); s != nil {
		return s
	}
	at.CompareAndSwap(nil, new(set))
	return at.Load()
}
