package memory

import "github.com/weir-go/weir/internal/ground/family"

// state is what a key has used, as it is stored: see [family.Used]. A state without units is fresh,
// whatever else it says.
type state struct {
	at      int64
	a       int64
	b       uint32
	limitID uint16 // which scope and limit it was written under
	serial  uint16 // tells it from other states that the key has had; 0: not stored yet
}

func (s *state) used() family.Used {
	return family.Used{At: s.at, A: s.a, B: int64(s.b), Serial: s.serial}
}

func (s *state) set(u family.Used) { s.at, s.a, s.b, s.serial = u.At, u.A, uint32(u.B), u.Serial }

// asOfLocked returns s, a state of limit, as of now, and how many units are in use.
func (sh *shard) asOfLocked(limit *scopedLimit, s family.Used, now int64) (family.Used, int64) {
	s, t, _ := limit.family.Decide(s, 0, now, &sh.nodes)
	return s, t.InUse
}

// loadLocked returns what a key has used under limit: as e says or, if e is nil, as the floors say;
// displaced is then true if they say anything. If writes is set it converts a state of another limit.
func (sh *shard) loadLocked(e *entry, limit *scopedLimit, now int64, writes bool) (s family.Used, displaced bool) {
	switch {
	case e == nil:
		units := min(sh.floorLocked(limit, now), limit.Max)
		if units <= 0 {
			return s, false
		}
		s, _ = sh.asOfLocked(limit, s, now)
		inherited, ok := limit.family.Inherit(s, units)
		if !ok {
			inherited, _ = limit.family.Charge(s, units, 0, now)
		}
		return inherited, true
	case e.limitID == limit.id:
		return e.used(), false
	}
	return sh.convertLocked(e, limit, now, writes), false
}

// decideLocked decides a charge of n units on s. Of a key that was displaced only the floors of the
// shard know the waits.
func (sh *shard) decideLocked(limit *scopedLimit, s family.Used, displaced bool, n, now int64) (after family.Used, t family.Told, fits bool) {
	after, t, fits = limit.family.Decide(s, n, now, &sh.nodes)
	if !displaced || fits && n > 0 {
		return after, t, fits
	}
	t.Reset = sh.floorWaitLocked(limit, 0, now)
	if limit.Bans {
		t.Wait = t.Reset
	} else if !fits || !limit.Ends && t.InUse >= limit.Max {
		t.Wait = sh.floorWaitLocked(limit, limit.Max-max(n, 1), now)
	}
	return after, t, fits
}

// A ticket is the instant that units count from, and above that the serial of the state.
// The units of a state that was converted or reset since are not known any more:
// without the serial, their return would be taken out of what others have in use. A leaky
// queue has a new serial with each taking, since only the last is ever returned. After 1,024 states
// of a shard, a serial comes again: a return that is as late, to a key that was reset meanwhile, counts.
const (
	ticketBits  = 53 // for 1970 to 2255
	ticketMask  = 1<<ticketBits - 1
	serialsMask = 1<<(63-ticketBits) - 1
)

func ticketOf(asOf int64, serial uint16) int64 {
	return asOf | int64(serial&serialsMask)<<ticketBits
}

// knows reports whether a ticket is of units taken from s.
func (s *state) knows(ticket int64) bool { return ticket>>ticketBits == int64(s.serial&serialsMask) }
