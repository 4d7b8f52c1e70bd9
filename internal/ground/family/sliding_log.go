package family

// slidingLog is the sliding log: a list of takings, oldest first. Its state is a [Log], in which a
// key with one taking needs no entry.
type slidingLog struct{ Numbers }

func newSlidingLog(l Numbers) Compiled { return &slidingLog{l} }

func (l *slidingLog) Decide(used Used, n, now int64, log Entries) (Used, Told, bool) {
	s := l.asOf(used, now, log)
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
	return Used(s), t, fits
}

// asOf returns s as of now, which is no earlier than its latest taking.
func (l *slidingLog) asOf(s Used, now int64, log Entries) Log {
	if s.B == 0 || now >= s.At+l.Period {
		return Log{At: now, Serial: s.Serial}
	}
	return Log(s).Drop(now-l.Period, log)
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
func (l *slidingLog) untilExpired(s Log, units, now int64, log Entries) int64 {
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
func (l *slidingLog) Refund(used Used, r Refund, log Entries) Used {
	s := Log(used)
	if r.Now-r.At >= l.Period {
		return used // the taking has expired
	}
	n, sum, latest := r.Taken-r.Final, s.Sum(), s.Latest()
	if r.At == s.At {
		n = min(n, latest)
		s.B = packLog(sum-n, latest-n)
		if latest == n && sum > n {
			s = s.withoutLatest(log)
		}
		return Used(s)
	}
	for i := s.Head(); i != 0; {
		at, units, next := log.Entry(i)
		switch {
		case at > r.At:
			return Used(s)
		case at == r.At:
			n = min(n, units)
			log.SetUnits(i, units-n)
			s.B = packLog(sum-n, latest)
			return Used(s)
		}
		i = next
	}
	return Used(s)
}
