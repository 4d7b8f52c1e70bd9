package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// topKeys finds the keys that are denied most, with bounded memory of 64 KiB, by the Space-Saving
// algorithm (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in
// Data Streams, 2005). It counts in two generations of a minute each, so old denials expire.
type topKeys struct {
	generations [2]generation
	current     int
	since       time.Time // start of the current generation
}

// generationLasts is the length of a generation.
const generationLasts = time.Minute

const (
	maxTop   = 256 // counters of a generation
	topSlots = 512 // slots of its hash table, two for each counter
	keyBytes = 92  // bytes of a key that are kept
)

// generation is one Space-Saving summary. A key without a counter takes over the counter with the
// lowest count and inherits the count as its possible error.
type generation struct {
	n        int
	denials  int64
	counters [maxTop]topCounter
	heap     [maxTop]uint8    // heap of counters, lowest first
	places   [maxTop]uint8    // place of each counter in the heap
	slots    [topSlots]uint16 // hash table: counter + 1; 0 is empty
}

type topCounter struct {
	hash         uint64
	count, error uint32
	rule         uint16
	shadow       bool
	key          shortKey
}

// shortKey holds the first bytes of a key in place, without an allocation.
type shortKey struct {
	bytes  [keyBytes]byte
	length uint8 // above keyBytes: the key was longer
}

func (k *shortKey) set(key string) {
	k.length = uint8(min(len(key), keyBytes+1))
	copy(k.bytes[:], key)
}

func (k *shortKey) text() (key string, cut bool) {
	return string(k.bytes[:min(k.length, keyBytes)]), k.length > keyBytes
}

// turn starts a new generation if the current one is a minute old.
func (t *topKeys) turn(now time.Time) {
	age := now.Sub(t.since)
	if age < generationLasts {
		return
	}
	t.current = 1 - t.current
	t.generations[t.current].clear()
	if age >= 2*generationLasts {
		t.generations[1-t.current].clear()
		t.since = now
		return
	}
	t.since = t.since.Add(generationLasts)
}

func (g *generation) clear() {
	g.n, g.denials = 0, 0
	clear(g.slots[:])
}

// add counts one denial of a key. hash covers the rule and shadow, too.
func (g *generation) add(hash uint64, rule uint16, shadow bool, key string) {
	g.denials++
	slot := g.find(hash)
	if at := g.slots[slot]; at != 0 {
		g.increase(int(at - 1))
		return
	}
	var i int
	if g.n < maxTop {
		i = g.n
		g.n++
		g.counters[i] = topCounter{}
		g.heap[i], g.places[i] = uint8(i), uint8(i)
		g.rise(i)
	} else {
		i = int(g.heap[0])
		g.drop(g.counters[i].hash)
		slot = g.find(hash)
	}
	c := &g.counters[i]
	c.hash, c.rule, c.shadow, c.error = hash, rule, shadow, c.count
	c.key.set(key)
	g.slots[slot] = uint16(i + 1)
	g.increase(i)
}

// find returns the slot of hash, or the empty slot for it.
func (g *generation) find(hash uint64) int {
	for slot := int(hash % topSlots); ; slot = (slot + 1) % topSlots {
		if at := g.slots[slot]; at == 0 || g.counters[at-1].hash == hash {
			return slot
		}
	}
}

// drop removes hash from the table and closes the gap (Knuth, The Art of Computer Programming,
// volume 3, section 6.4, algorithm R).
func (g *generation) drop(hash uint64) {
	hole := g.find(hash)
	for slot := hole; ; {
		slot = (slot + 1) % topSlots
		at := g.slots[slot]
		if at == 0 {
			break
		}
		home := int(g.counters[at-1].hash % topSlots)
		if (slot-home+topSlots)%topSlots >= (slot-hole+topSlots)%topSlots {
			g.slots[hole] = at
			hole = slot
		}
	}
	g.slots[hole] = 0
}

// increase adds 1 to the i-th counter.
func (g *generation) increase(i int) {
	c := &g.counters[i]
	if c.count++; c.count == 0 {
		c.count-- // the counter stays at its maximum
	}
	for at := int(g.places[i]); ; {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < g.n; child++ {
			if g.counters[g.heap[child]].count < g.counters[g.heap[least]].count {
				least = child
			}
		}
		if least == at {
			return
		}
		g.swap(at, least)
		at = least
	}
}

// rise moves the new counter at a place up to its position in the heap.
func (g *generation) rise(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if g.counters[g.heap[parent]].count <= g.counters[g.heap[at]].count {
			return
		}
		g.swap(at, parent)
		at = parent
	}
}

func (g *generation) swap(a, b int) {
	g.heap[a], g.heap[b] = g.heap[b], g.heap[a]
	g.places[g.heap[a]], g.places[g.heap[b]] = uint8(a), uint8(b)
}

// missed returns how many denials a key without a counter may have.
func (g *generation) missed() int64 {
	if g.n < maxTop {
		return 0
	}
	return int64(g.counters[g.heap[0]].count)
}

// snapshot returns the keys of both generations. For a key that has a counter in only one of them,
// it adds the lowest count of the other as a possible error.
func (t *topKeys) snapshot(now time.Time, rules []*rule) TopKeys {
	t.turn(now)
	current, previous := &t.generations[t.current], &t.generations[1-t.current]
	shot := TopKeys{Since: t.since, Denials: current.denials + previous.denials}
	if previous.denials > 0 {
		shot.Since = t.since.Add(-generationLasts)
	}
	sure := int64(0)
	add := func(c *topCounter, count, wrong int64) {
		key := TopKey{Rule: rules[c.rule].name, Count: count, Error: wrong}
		if c.shadow {
			key.Mode = core.Shadow
		}
		key.Key, key.Cut = c.key.text()
		sure += count - wrong
		shot.Keys = append(shot.Keys, key)
	}
	for i := range current.n {
		c := &current.counters[i]
		count, wrong := int64(c.count), int64(c.error)
		if at := previous.slots[previous.find(c.hash)]; at != 0 {
			count += int64(previous.counters[at-1].count)
			wrong += int64(previous.counters[at-1].error)
		} else {
			count += previous.missed()
			wrong += previous.missed()
		}
		add(c, count, wrong)
	}
	for i := range previous.n {
		c := &previous.counters[i]
		if current.slots[current.find(c.hash)] == 0 {
			add(c, int64(c.count)+current.missed(), int64(c.error)+current.missed())
		}
	}
	slices.SortStableFunc(shot.Keys, func(a, b TopKey) int { return cmp.Compare(b.Count, a.Count) })
	shot.Spread = 2*sure < shot.Denials
	return shot
}
