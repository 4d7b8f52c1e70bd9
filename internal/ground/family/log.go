package family

// Log is the [Used] of a sliding log. The latest taking is in the state itself. The others are
// entries of a store, in a list, oldest first.
//
// A is two numbers: the first and the last entry of the list. B is three: the units of all takings,
// those of the latest, and those of a pending taking, which Decide made and the store has yet to
// put in its place.
type Log Used

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

func packLog(sum, latest int64) int64  { return sum<<16 | latest }
func packList(head, tail uint32) int64 { return int64(head)<<32 | int64(tail) }

// Drop removes the entries of s up to an instant. The store frees them.
func (s Log) Drop(until int64, log Entries) Log {
	head, tail := s.Head(), s.Tail()
	for head != 0 {
		at, units, next := log.Entry(head)
		if at > until {
			break
		}
		s.B -= units << 16
		if head = next; head == 0 {
			tail = 0
		}
	}
	s.A = packList(head, tail)
	return s
}

// withoutLatest replaces the latest taking by the last entry that has units.
func (s Log) withoutLatest(log Entries) Log {
	before, latest := uint32(0), uint32(0)
	for i, last := s.Head(), uint32(0); i != 0; {
		_, units, next := log.Entry(i)
		if units > 0 {
			before, latest = last, i
		}
		i, last = next, i
	}
	at, units, _ := log.Entry(latest)
	s.At, s.B = at, packLog(s.Sum(), units)
	head := s.Head()
	if s.A = 0; before != 0 {
		s.A = packList(head, before)
	}
	return s
}
