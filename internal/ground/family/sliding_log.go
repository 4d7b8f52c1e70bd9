package family

// slidingLog is the sliding log: a list of takings, oldest first. The latest taking is in the state
// itself, so a key with one taking needs no entry. The others are entries of a store.
//
// A is two numbers: the first and the last entry of the list. B is three: the units of all takings,
// those of the latest, and those of a pending taking, which Decide made and the store has yet to
// put in its place.
type slidingLog struct{ Numbers }

func newSlidingLog(l Numbers) Compiled { return &slidingLog{l} }

// Sum returns the units of all takings of a log except the pending one.
func (s Used) Sum() int64 { return s.B >> 16 & 0xffff }

// Latest returns the units of the latest taking of a log.
func (s Used) Latest() int64 { return s.B & 0xffff }

// Pending returns the units of the pending taking of a log.
func (s Used) Pending() int64 { return s.B >> 32 }

// Head returns the first entry of a log's list, or 0.
func (s Used) Head() uint32 { return uint32(s.A >> 32) }

// Tail returns the last entry of a log's list, or 0.
func (s Used) Tail() uint32 { return uint32(s.A) }

// WithLog returns s with these numbers and this list, and with no pending taking.
func (s Used) WithLog(sum, latest int64, head, tail uint32) Used {
	s.A, s.B = packList(head, tail), packLog(sum, latest)
	return s
}

func packLog(sum, latest int64) int64  { return sum<<16 | latest }
func packList(head, tail uint32) int64 { return int64(head)<<32 | int64(tail) }

// LogOf returns a log with one taking.
func LogOf(units, at int64) Used { return Used{At: at, B: packLog(units, units)} }

func (l *slidingLog) Decide(s Used, n, now int64, log Entries) (Used, Told, bool) {
	s = l.asOf(s, now, log)
	inUse := s.Sum() + s.Pending()
	fits, ask := n == 0 || n <= l.Max-inUse, n
	if fits {
		s.B += n << 32
		inUse += n
		ask = 1
	}
	t := Told{InUse: inUse, Reset: l.untilFresh(s, inUse, now)}
	if inUse+ask > l.Max {
		t.Wait = l.untilExpired(s, inUse+ask-l.Max, now, log)
	}
	return s, t, fits
}

// asOf returns s as of now, which is no earlier than its latest taking.
func (l *slidingLog) asOf(s Used, now int64, log Entries) Used {
	if s.B == 0 || now >= s.At+l.Period {
		return Used{At: now, Serial: s.Serial}
	}
	return l.DropExpired(s, now, log)
}

// untilFresh returns the wait until no unit of s is in use. inUse is how many are in use now.
func (l *slidingLog) untilFresh(s Used, inUse, now int64) int64 {
	switch {
	case s.Pending() > 0:
		return l.Period
	case inUse > 0:
		return s.At + l.Period - now
	}
	return 0
}

// DropExpired removes the entries from s, a log, that have expired at now. The store frees them.
func (l *Numbers) DropExpired(s Used, now int64, log Entries) Used {
	head, tail := s.Head(), s.Tail()
	for head != 0 {
		at, units, next := log.Entry(head)
		if now < at+l.Period {
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

// untilExpired returns the wait until the oldest units have expired, as many as given. It reads
// each of their takings.
func (l *slidingLog) untilExpired(s Used, units, now int64, log Entries) int64 {
	for i := s.Head(); i != 0; {
		at, expire, next := log.Entry(i)
		if units -= expire; units <= 0 {
			return at + l.Period - now
		}
		i = next
	}
	if units <= s.Latest() {
		return s.At + l.Period - now
	}
	return l.Period
}

func (l *slidingLog) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	n = l.owable(n, inUse)
	s.B += n << 32
	return s, n
}

// FreshAt is when the latest taking expires, even if all its units were returned.
func (l *slidingLog) FreshAt(s Used) int64 { return s.At + l.Period }

// Refund takes units off the taking, if no merge has hidden it. It reads the entries up to the
// taking. If the latest taking has no units left, the last entry with units takes its place, and
// the store drops that entry and those behind it.
func (l *slidingLog) Refund(s Used, r Refund, log Entries) Used {
	if r.Now-r.At >= l.Period {
		return s // the taking has expired
	}
	n, sum, latest := r.Taken-r.Final, s.Sum(), s.Latest()
	if r.At == s.At {
		n = min(n, latest)
		s.B = packLog(sum-n, latest-n)
		if latest == n && sum > n {
			return s.withoutLatest(log)
		}
		return s
	}
	for i := s.Head(); i != 0; {
		at, units, next := log.Entry(i)
		switch {
		case at > r.At:
			return s
		case at == r.At:
			n = min(n, units)
			log.SetUnits(i, units-n)
			s.B = packLog(sum-n, latest)
			return s
		}
		i = next
	}
	return s
}

// withoutLatest replaces the latest taking by the last entry that has units.
func (s Used) withoutLatest(log Entries) Used {
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
