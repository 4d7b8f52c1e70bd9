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

// log returns s, the state of a log.
func (s *state) log() family.Log { return family.Log(s.used()) }

func (s *state) set(u family.Used) { s.at, s.a, s.b, s.serial = u.At, u.A, uint32(u.B), u.Serial }

// mayList reports whether s has a list, if its family has lists.
func (s *state) mayList() bool { return s.a != 0 }

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
