package faults

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAServerThatIsKilledAndRestartedIsSurvived(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name:   "kill -9 and restart",
		strike: func(*load) { s.kill() },
		heal:   func(*load) { s.restart(t) },
		lost:   1,
	})
}

func TestAServerThatIsStoppedForThreeSecondsIsSurvived(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var since time.Time
	prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name: "SIGSTOP for 3 s, SIGCONT",
		strike: func(*load) {
			s.stop(t)
			since = time.Now()
		},
		struck: func(l *load) bool { return l.haveDoneWithout(100) && time.Since(since) >= 3*time.Second },
		heal:   func(*load) { s.resume(t) },
	})
}
