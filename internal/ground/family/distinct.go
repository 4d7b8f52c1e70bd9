package family

// distinct counts different values. It is a sliding log with one unit for each value, at the
// instant of the last request that had it: see [Log] for the numbers. The latest taking of the state
// knows no value, and neither does an entry whose value had to be forgotten. Such units count like
// others, but a request with their value takes another unit.
//
// A request with a value that the log knows moves the unit of the value: the unit becomes pending,
// and leaves the sum.
type distinct struct{ slidingLog }

func newDistinct(l Numbers) Compiled { return &distinct{slidingLog{l}} }

func (l *distinct) Decide(
	used Used, n, now int64, value uint64, list Entries,
) (Used, Told, bool) {
	s := l.asOf(used, now, list)
	inUse, moved := s.Sum()+s.Pending(), uint32(0)
	if n > 0 || s.Pending() > 0 { // what is pending has the same value: a key is charged with one
		moved, _ = list.Find(s.Head(), int64(value), isValue)
	}
	isKnown := moved != 0 || s.Pending() > 0
	fits := n == 0 || isKnown || inUse < l.Max
	switch {
	case !fits || n == 0 || s.Pending() > 0:
	case isKnown:
		s.B += onePending - oneInSum
	default:
		s.B += onePending
		inUse++
	}
	t := Told{InUse: inUse, Reset: l.untilFresh(s, inUse, now)}
	if over := inUse + 1 - l.Max; over > 0 {
		t.Wait = l.untilExpired(s, over, now, list)
		if moved != 0 && s.Pending() > 0 { // the moved unit is still in the list, and leaves last
			if e, _ := takingFrom(moved, list); t.Wait >= e.Word+l.Period-now {
				t.Wait = l.untilExpired(s, over+1, now, list)
			}
		}
	}
	return Used(s), t, fits
}

// Store puts the value at the end of the list: it moves there if the log knows it. Without two
// entries the unit counts and the value is not known.
func (l *distinct) Store(used Used, now int64, value uint64, list List) Used {
	pending := Log(used).Pending()
	s := Log(used).expire(now-l.Period, list)
	s.B -= pending * onePending
	s, had := s.drop(value, list)
	if s.Latest() > 0 && s.At != now {
		s = s.push(list)
	}
	if s.At = now; pending == 0 {
		return Used(s)
	}
	e := Entry{Word: now, Units: 1}
	if had {
		e.Mark = isAgain
	}
	s, isKnown := s.addNamed(value, e, list)
	s.B += oneInSum
	if !isKnown {
		s.B += oneLatest
	}
	return Used(s)
}

// Charge charges nothing: no request has more than one value at its end.
func (*distinct) Charge(s Used, _, _, _ int64) (Used, int64) { return s, 0 }

// Inherit takes the units for values that the log does not know.
func (*distinct) Inherit(s Used, units int64) (Used, bool) {
	return Used(LogOf(units, s.At)), true
}

// Refund forgets the value of a taking if the value was new then, and no later request had it. A
// final cost above 0 is 1, so nothing is refunded.
func (l *distinct) Refund(used Used, r Refund, list Entries) Used {
	s := Log(used)
	i, _ := list.Find(s.Head(), int64(r.Value), isValue)
	if i == 0 || r.Final > 0 {
		return used
	}
	if e, _ := takingFrom(i, list); e.Mark == isAgain || e.Word != r.At {
		return used
	}
	s, _ = s.drop(r.Value, list)
	if s.Latest() == 0 && s.Tail() != 0 {
		s.At = list.Get(s.Tail()).Word
	}
	return Used(s)
}
