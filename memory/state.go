package memory

import "github.com/weir-go/weir/internal/ground/family"

// state is a stored [family.Used]. A state without units is fresh, whatever its other fields are.
type state struct {
	at      int64
	a       int64
	b       uint32
	limitID uint16 // the scopedLimit that wrote it
	serial  uint16 // differs from those of the key's former states; 0: not stored yet
}

func (s *state) used() family.Used {
	return family.Used{At: s.at, A: s.a, B: int64(s.b), Serial: s.serial}
}

func (s *state) set(u family.Used) { s.at, s.a, s.b, s.serial = u.At, u.A, uint32(u.B), u.Serial }

// listsNodes reports whether s, a log, has nodes.
func (s *state) listsNodes() bool { return s.a != 0 }

// asOfLocked returns s, a state of limit, as it is at now, and how many units are in use.
func (sh *shard) asOfLocked(limit *scopedLimit, s family.Used, now int64) (family.Used, int64) {
	s, t, _ := limit.family.Decide(s, 0, now, &sh.nodes)
	return s, t.InUse
}

// loadLocked returns the state of a key under limit. A key without entry (e is nil) starts from the
// floors; displaced reports whether they gave it units. A state of another limit is converted, and
// stored if writes is set.
func (sh *shard) loadLocked(e *entry, limit *scopedLimit, now int64,
	writes bool) (s family.Used, displaced bool) {
	switch {
	case e == nil:
		units := min(sh.floors.used(limit, now), limit.Max)
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

// decideLocked decides a charge of n units on s. If displaced is set, the waits come from the
// floors, since s does not know them.
func (sh *shard) decideLocked(limit *scopedLimit, s family.Used, displaced bool,
	n, now int64) (after family.Used, t family.Told, fits bool) {
	after, t, fits = limit.family.Decide(s, n, now, &sh.nodes)
	if !displaced || fits && n > 0 {
		return after, t, fits
	}
	t.Reset = sh.floors.wait(limit, 0, now)
	if limit.Bans {
		t.Wait = t.Reset
	} else if !fits || !limit.Ends && t.InUse >= limit.Max {
		t.Wait = sh.floors.wait(limit, limit.Max-max(n, 1), now)
	}
	return after, t, fits
}

// A ticket is the instant from which units count, with the serial of the state in the bits above. A
// refund must find the state that it was taken from: after a conversion or a reset, it would return
// units of other requests. The serial tells such states apart. It repeats after 1,024 new states of
// a shard, so a refund that late, to a key that was reset meanwhile, is made by mistake.
const (
	ticketBits  = 53 // for 1970 to 2255
	ticketMask  = 1<<ticketBits - 1
	serialsMask = 1<<(63-ticketBits) - 1
)

func ticketOf(asOf int64, serial uint16) int64 {
	return asOf | int64(serial&serialsMask)<<ticketBits
}

// knows reports whether ticket belongs to units that were taken from s.
func (s *state) knows(ticket int64) bool {
	return ticket>>ticketBits == int64(s.serial&serialsMask)
}
