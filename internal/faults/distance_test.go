package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// trips are round trips to servers from the next zone to another continent's
// near end. All of them are within the budget; with those to connect, they are
// not.
var trips = [...]time.Duration{5, 10, 15, 20, 40} // milliseconds

// handshakes are the round trips that connecting takes before the first command:
// one for TCP, and three more as TLS can have them.
var handshakes = [...]int{1, 1 + 3}

// Redis is far away, which is no fault, and stays there. All connections are
// reset, twice. Each time Redis must decide again, though connecting takes longer
// than the budget of any decision.
func TestADistantServerDecidesAndDoesSoAfterResets(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, trip := range trips {
		trip *= time.Millisecond
		for _, handshake := range handshakes {
			t.Run(fmt.Sprintf("%v, %d to connect", trip, handshake), func(t *testing.T) {
				t.Parallel()
				p := startDistantProxy(t, s.addr, trip, handshake)
				fleet := startFleet(t, p.addr(), redis.Options{MaxRetries: -1, DialerRetries: 1})
				prove(t, fleet, fault{
					name: fmt.Sprintf("round trips of %v, %d of them to connect, all connections reset twice", trip, handshake),
					strike: func(*load) {
						p.reset()
						shareExactly(t, fleet)
					},
					struck: func(*load) bool { return true },
					heal:   func(*load) { p.reset() },
				})
			})
		}
	}
}
