package faults

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
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
		struck: func(l *load) bool {
			return l.haveDoneWithout(100) && all(l.fleet, "open") && time.Since(since) >= 3*time.Second
		},
		heal: func(*load) { s.resume(t) },
	})
}

// With Config.Instances, those that fall back admit together what one would.
func TestInstancesThatFallBackAdmitTheirShare(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	fleet := startFleet(t, s.addr, redis.Options{DialerRetries: 1})
	shareExactly(t, fleet)
	s.kill()
	admitted := 0
	for _, in := range fleet {
		sharing := core.MustNew(core.Config[string]{
			Rules:     []core.Rule[string]{{Name: "shared", Limit: limit, Key: self}},
			Backend:   in.stack,
			Instances: len(fleet),
		})
		for range 2 * units {
			o := sharing.Decide(t.Context(), "client")
			if source := o.At(0).Source; source != limits.SourceFallback {
				t.Errorf("%s: %v by %v", in.kind, o.Verdict(), source)
			}
			if o.Allowed() {
				admitted++
			}
		}
	}
	if want := len(fleet) * ((units + len(fleet) - 1) / len(fleet)); admitted != want {
		t.Errorf("%d admitted, want %d: a share each, rounded up", admitted, want)
	}
	t.Logf("FAULT kill -9, Config.Instances %d: %d admitted of a limit of %d, all by fallbacks", len(fleet), admitted,
		units)
}
