package redisbackend

import (
	"sync"
	"time"
)

// maxJump is by how much the clock of a server may differ from what it was expected to show.
const maxJump = 24 * time.Hour

// serverInstants is what is known of the clock of a server.
type serverInstants struct {
	mu      sync.Mutex
	latest  serverInstant
	doubted serverInstant // of the reply before, which was not believed; otherwise zero
}

// serverInstant is an instant of a server, in microseconds since the Unix epoch, and when it was
// told.
type serverInstant struct {
	us int64
	at time.Time
}

// believe reports whether a server may tell an instant: it is within a day of what the one before
// lets expect. A clock that has been set differs by more. So the first instant after that is not
// believed, and the next is, on another connection, if it agrees with that one.
func (s *serverInstants) believe(us int64) bool {
	told := serverInstant{us, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if us <= 0 || us > never {
		return false
	}
	if s.latest.at.IsZero() || told.agrees(s.latest) || told.agrees(s.doubted) {
		s.latest, s.doubted = told, serverInstant{}
		return true
	}
	s.doubted = told
	return false
}

// readInstant reads an instant that s has to believe, unless s is nil.
func readInstant(r *reply, s *serverInstants) (us int64, err error) {
	us, ok := r.number()
	if !ok {
		return 0, errForeign
	} else if s != nil && !s.believe(us) {
		return 0, errClock
	}
	return us, nil
}

func (i serverInstant) agrees(before serverInstant) bool {
	expected := before.us + i.at.Sub(before.at).Microseconds()
	return !before.at.IsZero() && max(i.us-expected, expected-i.us) <= maxJump.Microseconds()
}
