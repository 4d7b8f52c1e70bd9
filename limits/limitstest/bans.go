package limitstest

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// banCases are about bans (DESIGN 12).
var banCases = []testCase{
	{
		name: "a banned key denies the request and takes nothing elsewhere",
		why: "a ban is decided with all other rules: a denied request takes nothing of them, and a " +
			"shadow of a banned key denies nothing (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerMinute(1), hour)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			w := h.world(t)
			ban := backends.Charge{Scope: "ban", Key: "k", Limit: l, Cost: 1}
			rate := backends.Charge{Scope: "rate", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)),
				Cost: 1}
			w.take(ban)
			w.expect("banned", []backends.Charge{ban, rate}, denied(0, hour, hour), allowed(5, 0, hour))
			ban.Shadow = true
			w.expect("banned in shadow", []backends.Charge{ban, rate}, denied(0, hour, hour),
				allowed(4, hour, hour))
		},
	},

	{
		name: "no key inherits a ban",
		why: "whatever banned keys a full store has displaced, a new key is not banned: its first " +
			"charge is allowed (DESIGN 12)",
		small: true,
		run: func(t testing.TB, h Harness) {
			l := limits.Ban(limits.PerHour(5), day)
			if !h.limits.has(l) {
				t.SkipNow()
			}
			for _, maxKeys := range []int{1, 7, 64} {
				c := h.clockAt(newYear)
				w := world{t, c, h.OpenSmall(t, c.now, maxKeys)}
				for i := range 20 * maxKeys {
					charge := backends.Charge{Scope: "s", Key: fmt.Sprint("new ", i), Limit: l, Cost: 5}
					if d := w.take(charge)[0]; !d.Allowed {
						t.Fatalf("with room for %d keys, the first charge of key %d: %s", maxKeys, i+1,
							showDecision(d))
					}
				}
				fewer := limits.Ban(limits.PerHour(2), day)
				charge := backends.Charge{Scope: "s", Key: "under a lower number", Limit: fewer, Cost: 1}
				if d := w.take(charge)[0]; !d.Allowed {
					t.Errorf("with room for %d keys, the first charge under a lower number: %s", maxKeys,
						showDecision(d))
				}
			}
		},
	},
}
