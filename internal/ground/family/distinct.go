package family

// distinct counts different values. It is a sliding log with one unit for each value, at the
// instant of the last request that had it: see [Log] for the numbers. Entries know their
// values. The latest taking of the state knows no value, and neither does an entry if the store had
// to forget its value. Such units count like others, but a request with their value takes another
// unit.
//
// A request with a value that the log knows moves the unit of the value: the unit becomes pending,
// and leaves the sum.
type distinct struct{ slidingLog }

func newDistinct(l Numbers) Compiled { return &distinct{slidingLog{l}} }

func (l *distinct) Decide(used Used, n, now int64, log Entries) (Used, Told, bool) {
	s := l.asOf(used, now, log)
	inUse, moved := s.Sum()+s.Pending(), uint32(0)
	if n > 0 || s.Pending() > 0 {
		moved = log.OfValue(s.Head())
	}
	isKnown := moved != 0 || s.Pending() > 0
	fits := n == 0 || isKnown || inUse < l.Max
	switch {
	case !fits || n == 0 || s.Pending() > 0:
	case isKnown:
		s.B += 1<<32 - 1<<16
	default:
		s.B += 1 << 32
		inUse++
	}
	t := Told{InUse: inUse, Reset: l.untilFresh(s, inUse, now)}
	if over := inUse + 1 - l.Max; over > 0 {
		t.Wait = l.untilExpired(s, over, now, log)
		if moved != 0 && s.Pending() > 0 { // the moved unit is still in the list, and leaves last
			if at, _, _ := log.Entry(moved); t.Wait >= at+l.Period-now {
				t.Wait = l.untilExpired(s, over+1, now, log)
			}
		}
	}
	return Used(s), t, fits
}

// Charge charges nothing: no request has more values at its end.
func (*distinct) Charge(s Used, _, _, _ int64) (Used, int64) { return s, 0 }

// Inherit takes the units for values that the log does not know.
func (*distinct) Inherit(s Used, units int64) (Used, bool) {
	return Used(LogOf(units, s.At)), true
}

// Refund forgets the value of a taking if the value was new then, and no later request had it. A
// final cost above 0 is 1, so nothing is refunded.
func (l *distinct) Refund(used Used, r Refund, log Entries) Used {
	s := Log(used)
	i := log.OfValue(s.Head())
	if i == 0 || r.Final > 0 || log.IsSeenAgain(i) {
		return Used(s)
	}
	at, units, _ := log.Entry(i)
	if at != r.At {
		return Used(s)
	}
	log.SetUnits(i, 0)
	s.B -= units << 16
	if s.Latest() > 0 {
		return Used(s)
	}
	for i, next := s.Head(), uint32(0); i != 0; i = next {
		if at, units, next = log.Entry(i); units > 0 {
			s.At = at
		}
	}
	return Used(s)
}
