package family

// slidingLog is the sliding log: a list of takings, oldest first. Its state is a [Log], in which a
// key with one taking needs no entry.
type slidingLog struct{ Numbers }

func newSlidingLog(l Numbers) Compiled { return &slidingLog{l} }

func (l *slidingLog) Decide(
	used Used, n, now int64, _ uint64, list Entries,
) (Used, Told, bool) {
	s := l.asOf(used, now, list)
	inUse := s.Sum() + s.Pending()
	fits, ask := n == 0 || n <= l.Max-inUse, n
	if fits {
		s.B += n * onePending
		inUse += n
		ask = 1
	}
	t := Told{InUse: inUse, Reset: l.untilFresh(s, inUse, now)}
	if inUse+ask > l.Max {
		t.Wait = l.untilExpired(s, inUse+ask-l.Max, now, list)
	}
	return Used(s), t, fits
}

// asOf returns s as of now, which is no earlier than its latest taking.
func (l *slidingLog) asOf(s Used, now int64, list Entries) Log {
	if s.B == 0 || now >= s.At+l.Period {
		return Log{At: now, Serial: s.Serial}
	}
	return Log(s).since(now-l.Period, list)
}

// untilFresh returns the wait until no unit of s is in use. inUse is how many are in use now.
func (l *slidingLog) untilFresh(s Log, inUse, now int64) int64 {
	switch {
	case s.Pending() > 0:
		return l.Period
	case inUse > 0:
		return s.At + l.Period - now
	}
	return 0
}

// untilExpired returns the wait until the oldest units have expired, as many as given. It reads
// each of their takings.
func (l *slidingLog) untilExpired(s Log, units, now int64, list Entries) int64 {
	for i := s.Head(); i != 0; {
		e, _ := takingFrom(i, list)
		if units -= int64(e.Units); units <= 0 {
			return e.Word + l.Period - now
		}
		i = e.Next
	}
	if units <= s.Latest() {
		return s.At + l.Period - now
	}
	return l.Period
}

func (l *slidingLog) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	n = l.owable(n, inUse)
	s.B += n * onePending
	return s, n
}

// FreshAt is when the latest taking expires, even if all its units were returned.
func (l *slidingLog) FreshAt(s Used) int64 { return s.At + l.Period }

// Refund takes units off the taking, if no merge has hidden it. It reads the entries up to the
// taking. If the latest taking has no units left, the last entry with units takes its place.
func (l *slidingLog) Refund(used Used, r Refund, list Entries) Used {
	s := Log(used)
	if r.Now-r.At >= l.Period {
		return used // the taking has expired
	}
	n, sum, latest := r.Taken-r.Final, s.Sum(), s.Latest()
	if r.At == s.At {
		n = min(n, latest)
		s.B = packLog(sum-n, latest-n)
		if latest == n && sum > n {
			s = s.withoutLatest(list)
		}
		return Used(s)
	}
	for i := s.Head(); i != 0; {
		e := list.Get(i)
		switch {
		case e.Word > r.At:
			return Used(s)
		case e.Word == r.At:
			n = min(n, int64(e.Units))
			e.Units -= uint16(n)
			list.Set(i, e)
			s.B = packLog(sum-n, latest)
			return Used(s)
		}
		i = e.Next
	}
	return Used(s)
}

// Begin implements [Lister].
func (l *slidingLog) Begin(units, at int64) Used { return Used(LogOf(units, at)) }

// Store makes the pending taking the latest. The one before it needs an entry, unless both have one
// instant. Without an entry it counts as taken now: longer than it should.
func (l *slidingLog) Store(used Used, now int64, _ uint64, list List) Used {
	pending := Log(used).Pending()
	s := Log(used).expire(now-l.Period, list)
	s.B -= pending * onePending
	if s.Latest() > 0 && s.At != now {
		s = s.push(list)
	}
	s.At, s.B = now, packLog(s.Sum()+pending, s.Latest()+pending)
	return Used(s)
}

// Expire implements [Lister].
func (l *slidingLog) Expire(s Used, now int64, list Entries) Used {
	return Used(Log(s).expire(now-l.Period, list))
}

// Shrink implements [Lister].
func (l *slidingLog) Shrink(s Used, list Entries) Used { return Used(Log(s).shrink(list)) }
