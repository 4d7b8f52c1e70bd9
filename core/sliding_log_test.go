package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// replay is a store whose clock is set by hand.
type replay struct {
	t   *testing.T
	now time.Time
	*core.Memory
	charges []core.Charge
	out     []core.Decision
}

func newReplay(t *testing.T, options core.MemoryOptions) *replay {
	r := &replay{t: t, now: time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)}
	options.Clock = func() time.Time { return r.now }
	r.Memory = core.NewMemory(options)
	r.charges, r.out = make([]core.Charge, 1), make([]core.Decision, 1)
	return r
}

func (r *replay) allowed(scope, key string, limit core.Limit) bool {
	r.charges[0] = core.Charge{Scope: scope, Key: key, Limit: limit, Cost: 1}
	if err := r.Take(r.t.Context(), r.charges, r.out); err != nil {
		r.t.Fatal(err)
	}
	return r.out[0].Allowed
}

// honest has clients of a scope make requests for a while, each at half of what
// its limit, in units per minute, allows, and returns the share that was denied.
func (r *replay) honest(scope string, clients int, limit core.Limit, requests int) float64 {
	pause := 2 * limit.Rate().Period / time.Duration(limit.Rate().Units)
	denied := 0
	for range requests {
		for client := range clients {
			if !r.allowed(scope, fmt.Sprint(client), limit) {
				denied++
			}
			r.now = r.now.Add(pause / time.Duration(clients))
		}
	}
	return float64(denied) / float64(clients*requests)
}

var hundredPerMinute = core.SlidingLog(core.PerMinute(100))

// No attack: clients come one after another, and each makes half of the requests
// that it may. What they took has expired when the room for it runs out.
func TestLogsThatHaveExpiredDenyNobody(t *testing.T) {
	for _, options := range []core.MemoryOptions{{}, {MaxKeys: 1000, MaxLogEntries: 256}} {
		r := newReplay(t, options)
		denied := 0
		const clients = 20_000
		for client := range clients {
			key := fmt.Sprint(client)
			for range 60 {
				if !r.allowed("s", key, hundredPerMinute) {
					denied++
				}
				r.now = r.now.Add(1200 * time.Millisecond)
			}
		}
		if denied > 0 {
			t.Errorf("%+v: %.2f%% of the requests were denied", options, 100*float64(denied)/clients/60)
		}
	}
}

func TestLongLogsOfOneScopeDenyNobodyInAnother(t *testing.T) {
	r := newReplay(t, core.MemoryOptions{})
	heavy := core.SlidingLog(core.PerDay(10_000))
	for range 10_000 {
		for key := range 120 {
			r.allowed("heavy", fmt.Sprint(key), heavy)
		}
		r.now = r.now.Add(time.Second)
	}
	for key := range 120 {
		if r.allowed("heavy", fmt.Sprint(key), heavy) {
			t.Fatal("a heavy key is allowed more than its limit")
		}
	}
	for _, when := range []string{"while they are live", "a week later"} {
		if share := r.honest("honest", 1000, hundredPerMinute, 150); share > 0 {
			t.Errorf("%s, %.2f%% of the requests of others were denied", when, 100*share)
		}
		r.now = r.now.Add(7 * 24 * time.Hour)
	}
}
