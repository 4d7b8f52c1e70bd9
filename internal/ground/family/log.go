package family

import (
	"math"
	"math/bits"
)

// Lister is a family whose states have lists: see [Log].
type Lister interface {
	Compiled

	// Begin returns the state of a key that took so many units at an instant.
	Begin(units, at int64) Used

	// Store gives the units that were added to s their place in the list, as of now.
	Store(s Used, now int64, value uint64, list List) Used

	// Expire drops the entries of s that do not count any more.
	Expire(s Used, now int64, list Entries) Used

	// Shrink drops at least one entry of s, which has some. Units then count longer, by less than
	// they count in all, and values are forgotten. It never gives units away.
	Shrink(s Used, list Entries) Used
}

// Entry is an element of a list. Only the family knows what it means: see [Log].
type Entry struct {
	Word  int64
	Units uint16
	Mark  uint8
	Next  uint32 // the next entry of the list; 0: it is the last
}

// Entries stores entries by their numbers. They begin with 1, and 0 stands for no entry.
type Entries interface {
	Get(i uint32) Entry
	Set(i uint32, e Entry)
	Link(i, next uint32) // sets the Next of the entry i

	// Free takes the entry i back. The list has it no more.
	Free(i uint32)

	// Find returns the first entry with a word and a mark, from head on, and the one before it, or
	// 0 and 0.
	Find(head uint32, word int64, mark uint8) (i, before uint32)
}

// List is the entries for one list.
type List interface {
	Entries

	// Append puts e behind the entry tail, unless that is 0, and returns its number. The list begins
	// with head. Append returns 0 if no entry is free: it may take entries from other lists, but not
	// from this one.
	Append(head, tail uint32, e Entry) uint32
}

// Log is the [Used] of a sliding log. The latest taking is in the state itself. The others are
// entries in a list, oldest first. A taking whose value is known has two: one with the value, and
// behind it one with the instant and the units.
//
// A is two numbers: the first and the last entry of the list. B is three: the units of all takings,
// those of the latest, and those of a pending taking, which Decide made and Store has yet to put in
// its place.
type Log Used

// The marks of entries.
const (
	isTaking = iota // the word is the instant of units
	isAgain         // as isTaking, and a request had the value that was not the first
	isValue         // the word is the value of the taking in the next entry
)

// LogOf returns a log with one taking.
func LogOf(units, at int64) Log { return Log{At: at, B: packLog(units, units)} }

// Sum returns the units of all takings except the pending one.
func (s Log) Sum() int64 { return s.B >> 16 & 0xffff }

// Latest returns the units of the latest taking.
func (s Log) Latest() int64 { return s.B & 0xffff }

// Pending returns the units of the pending taking.
func (s Log) Pending() int64 { return s.B >> 32 }

// Head returns the first entry of the list, or 0.
func (s Log) Head() uint32 { return uint32(s.A >> 32) }

// Tail returns the last entry of the list, or 0.
func (s Log) Tail() uint32 { return uint32(s.A) }

// With returns s with these numbers and this list, and with no pending taking.
func (s Log) With(sum, latest int64, head, tail uint32) Log {
	s.A, s.B = packList(head, tail), packLog(sum, latest)
	return s
}

// The units of the three numbers in B.
const (
	oneLatest  = 1
	oneInSum   = 1 << 16
	onePending = 1 << 32
)

func packLog(sum, latest int64) int64  { return sum*oneInSum + latest*oneLatest }
func packList(head, tail uint32) int64 { return int64(head)<<32 | int64(tail) }

// On returns the stored log with the pending taking and the serial of s. s was decided on the
// stored log, which may have been shrunk since.
func (s Log) On(stored Log) Log {
	stored.B, stored.Serial = stored.B+s.Pending()*onePending, s.Serial
	return stored
}

// Unlisted returns s without its list, which is lost. All its takings count as one, as of the
// latest: longer than they should.
func (s Log) Unlisted() Log {
	if s.Head() != 0 {
		s.A, s.B = 0, s.B&^0xffff|s.Sum()
	}
	return s
}

// takingFrom returns the taking of the entry i, and the number of its entry: i, or the next one if i
// has the value of the taking.
func takingFrom(i uint32, list Entries) (Entry, uint32) {
	e := list.Get(i)
	if e.Mark == isValue {
		i = e.Next
		e = list.Get(i)
	}
	return e, i
}

// since returns s with the takings after an instant. It frees no entries.
func (s Log) since(until int64, list Entries) Log {
	head, sum := s.Head(), int64(0)
	for head != 0 {
		e, _ := takingFrom(head, list)
		if e.Word > until {
			break
		}
		head, sum = e.Next, sum+int64(e.Units)
	}
	return s.from(head, sum)
}

// expire is since, and frees the entries.
func (s Log) expire(until int64, list Entries) Log {
	head, sum := s.Head(), int64(0)
	for head != 0 {
		e, last := takingFrom(head, list)
		if e.Word > until {
			break
		}
		if list.Free(head); last != head {
			list.Free(last)
		}
		head, sum = e.Next, sum+int64(e.Units)
	}
	return s.from(head, sum)
}

// from returns s with the list from head on, which has so many units fewer.
func (s Log) from(head uint32, fewer int64) Log {
	s.B -= fewer * oneInSum
	if s.A = packList(head, s.Tail()); head == 0 {
		s.A = 0
	}
	return s
}

// free frees the entries from i on, up to the entry end.
func free(i, end uint32, list Entries) {
	for i != end {
		next := list.Get(i).Next
		list.Free(i)
		i = next
	}
}

// withoutLatest replaces the latest taking by the last entry that has units. It frees that entry
// and those behind it.
func (s Log) withoutLatest(list Entries) Log {
	before, latest := uint32(0), uint32(0)
	for i, last := s.Head(), uint32(0); i != 0; {
		e := list.Get(i)
		if e.Units > 0 {
			before, latest = last, i
		}
		i, last = e.Next, i
	}
	e := list.Get(latest)
	s.At, s.B = e.Word, packLog(s.Sum(), int64(e.Units))
	free(latest, 0, list)
	head := s.Head()
	if s.A = 0; before != 0 {
		s.A = packList(head, before)
		list.Link(before, 0)
	}
	return s
}

// push moves the latest taking of s to the end of its list. If it finds no entry, s keeps it. To
// shrink changes the tail, and may add units to the latest taking.
func (s Log) push(list List) Log {
	i := list.Append(s.Head(), s.Tail(), s.latestEntry())
	if i == 0 && s.shrinks(list) {
		s = s.shrink(list)
		i = list.Append(s.Head(), s.Tail(), s.latestEntry())
	}
	if i == 0 {
		return s
	}
	s = s.endingIn(i)
	s.B -= s.Latest() * oneLatest
	return s
}

// latestEntry returns the entry that the latest taking needs in a list.
func (s Log) latestEntry() Entry { return Entry{Word: s.At, Units: uint16(s.Latest())} }

// addNamed puts e at the end of the list, behind an entry with its value. If it does not find two
// entries, it returns false.
func (s Log) addNamed(value uint64, e Entry, list List) (Log, bool) {
	s, first := s.loose(0, Entry{Word: int64(value), Mark: isValue}, list)
	if first == 0 {
		return s, false
	}
	s, second := s.loose(first, e, list)
	if second == 0 {
		list.Free(first)
		return s, false
	}
	if tail := s.Tail(); tail != 0 {
		list.Link(tail, first)
		s.A = packList(s.Head(), second)
	} else {
		s.A = packList(first, second)
	}
	return s, true
}

// loose returns the number of a new entry with e, or 0. The list does not have it yet: it stands
// alone (behind is 0), or behind another new entry.
func (s Log) loose(behind uint32, e Entry, list List) (Log, uint32) {
	i := list.Append(s.Head(), behind, e)
	if i == 0 && s.shrinks(list) {
		s = s.shrink(list)
		i = list.Append(s.Head(), behind, e)
	}
	return s, i
}

// endingIn returns s whose list has the entry i behind the others.
func (s Log) endingIn(i uint32) Log {
	head := s.Head()
	if head == 0 {
		head = i
	}
	s.A = packList(head, i)
	return s
}

// shrinks reports whether s has enough entries to shrink for its own takings.
func (s Log) shrinks(list Entries) bool { return s.length(FewEntries, list) == FewEntries }

// FewEntries is how many entries a list has at least that shrinks to make room for its own takings.
const FewEntries = 4

// length returns how many entries the list has, counting up to most.
func (s Log) length(most int, list Entries) (n int) {
	for i := s.Head(); i != 0 && n < most; i = list.Get(i).Next {
		n++
	}
	return n
}

// drop frees the entries of a value, and reports whether s had it.
func (s Log) drop(value uint64, list Entries) (_ Log, had bool) {
	i, before := list.Find(s.Head(), int64(value), isValue)
	if i == 0 {
		return s, false
	}
	e, last := takingFrom(i, list)
	list.Free(i)
	list.Free(last)
	head, tail := s.Head(), s.Tail()
	if before == 0 {
		head = e.Next
	} else {
		list.Link(before, e.Next)
	}
	if e.Next == 0 {
		tail = before
	}
	s.A, s.B = packList(head, tail), s.B-int64(e.Units)*oneInSum
	return s, true
}

// shrink frees entries of s, at least one. If the log has values, it frees only these, of the
// oldest takings: as many as a quarter of the entries, or all values if there are fewer. Otherwise
// it merges takings, and frees at least a quarter of the entries.
//
// It merges the takings within one interval into the last of them, so they count longer, by less
// than the interval. The interval is a power of two microseconds. So intervals nest: however often
// a log is merged, no taking counts longer by more than the longest interval.
//
// An example. The entries are at 1, 2, 5 and 11 µs, and the latest taking is at 13 µs:
//
//	keep 3 of 4 entries  (13 − 1)/3 = 4 < 2³, so shift is 3: intervals of 8 µs
//	0 to 7 µs            1, 2 and 5 become one entry at 5 µs
//	8 to 15 µs           11 becomes part of the latest taking
//	                     one entry is left, and three are free
func (s Log) shrink(list Entries) Log {
	n := s.length(math.MaxInt, list)
	s, forgot := s.forgetValues(max(1, n/4), list)
	if forgot {
		return s
	}
	shift := 63 // one interval: all become part of the latest taking
	if keep := int64(n - max(1, n/4)); keep > 0 {
		// An interval is longer than the time from the oldest to the latest, divided by keep. So the
		// entries lie in the interval of the latest and in keep intervals at most.
		shift = bits.Len64(uint64((s.At - list.Get(s.Head()).Word) / keep))
	}
	latest := s.Latest()
	merged, units := s.With(s.Sum(), 0, 0, 0), uint16(0) // units of the interval so far
	for i := s.Head(); i != 0; {
		e := list.Get(i)
		next, following := e.Next, s.At // the instant of the taking behind e
		if next != 0 {
			following = list.Get(next).Word
		}
		units += e.Units
		switch isMerged := e.Word>>shift == following>>shift; {
		case !isMerged:
			list.Set(i, Entry{Word: e.Word, Units: units})
			if tail := merged.Tail(); tail != 0 {
				list.Link(tail, i)
			}
			merged, units = merged.endingIn(i), 0
		case next == 0:
			latest += int64(units)
			fallthrough
		default:
			list.Free(i)
		}
		i = next
	}
	return merged.With(s.Sum(), latest, merged.Head(), merged.Tail())
}

// forgetValues frees the values of the oldest takings of s, of most at most, and reports whether
// there were any. The units count on, and are then of values that are not known.
func (s Log) forgetValues(most int, list Entries) (_ Log, forgot bool) {
	head, before := s.Head(), uint32(0)
	for i := head; i != 0 && most > 0; {
		e := list.Get(i)
		if e.Mark == isValue {
			list.Free(i)
			if before == 0 {
				head = e.Next
			} else {
				list.Link(before, e.Next)
			}
			i, most, forgot = e.Next, most-1, true
			e = list.Get(i)
		}
		i, before = e.Next, i
	}
	s.A = packList(head, s.Tail())
	return s, forgot
}
