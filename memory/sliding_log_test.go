package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// replay is a store whose clock is set by hand.
type replay struct {
	t   *testing.T
	now time.Time
	*memory.Memory
	charges []backends.Charge
	out     []limits.Decision
}

func newReplay(t *testing.T, options memory.Options) *replay {
	r := &replay{t: t, now: time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)}
	options.Clock = func() time.Time { return r.now }
	r.Memory = memory.MustNew(options)
	r.charges, r.out = make([]backends.Charge, 1), make([]limits.Decision, 1)
	return r
}

func (r *replay) allowed(scope, key string, limit limits.Limit) bool {
	r.charges[0] = backends.Charge{Scope: scope, Key: key, Limit: limit, Cost: 1}
	if err := r.Take(r.t.Context(), r.charges, r.out); err != nil {
		r.t.Fatal(err)
	}
	return r.out[0].Allowed
}

// honest has clients of a scope make requests for a while, each at half of what
// its limit, in units per minute, allows, and returns the share that was denied.
func (r *replay) honest(scope string, clients int, limit limits.Limit, requests int) float64 {
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

var hundredPerMinute = limits.SlidingLog(limits.PerMinute(100))

// No attack: clients come one after another, and each makes half of the requests
// that it may. What they took has expired when the room for it runs out.
func TestLogsThatHaveExpiredDenyNobody(t *testing.T) {
	for _, options := range []memory.Options{{}, {MaxKeys: 1000, MaxLogEntries: 256}} {
		r := newReplay(t, options)
		early, late := 28_000, 2000
		if raceEnabled { // some ten times as slow
			early, late = 2000, 100
		}
		denied, requests := 0, 0
		for client := range early + late {
			key := fmt.Sprint(client)
			stays := 50
			if client >= early {
				stays = 125
			}
			for range stays {
				requests++
				if !r.allowed("s", key, hundredPerMinute) {
					denied++
				}
				r.now = r.now.Add(1200 * time.Millisecond)
			}
			if client == early-1 {
				requests = 0 // those who came early do not stay long enough to be denied
			}
		}
		if denied > 0 {
			t.Errorf("%+v: %.1f%% of the requests of the last %d clients were denied", options,
				100*float64(denied)/float64(requests), late)
		}
	}
}

func TestLongLogsOfOneScopeDenyNobodyInAnother(t *testing.T) {
	r := newReplay(t, memory.Options{})
	keys, clients := 120, 1000
	if raceEnabled { // some ten times as slow
		r = newReplay(t, memory.Options{MaxKeys: 1 << 14, MaxLogEntries: 1 << 16})
		keys, clients = 8, 50
	}
	heavy := limits.SlidingLog(limits.PerDay(10_000))
	for range 10_000 {
		for key := range keys {
			r.allowed("heavy", fmt.Sprint(key), heavy)
		}
		r.now = r.now.Add(time.Second)
	}
	for key := range keys {
		if r.allowed("heavy", fmt.Sprint(key), heavy) {
			t.Fatal("a heavy key is allowed more than its limit")
		}
	}
	for _, when := range []string{"while they are live", "a week later"} {
		if share := r.honest("honest", clients, hundredPerMinute, 150); share > 0 {
			t.Errorf("%s, %.2f%% of the requests of others were denied", when, 100*share)
		}
		r.now = r.now.Add(7 * 24 * time.Hour)
	}
}

// Beyond what it can remember apart, a store remembers neighbouring takings
// together. As long as each log has a few nodes, who keeps to half of its limit
// notices nothing.
func TestMoreLogsThanNodesDenyNobodyWhoKeepsToHalf(t *testing.T) {
	for _, clients := range []int{5, 20, 60, 120, 250} { // 49 takings each that count, and 256 nodes
		r := newReplay(t, memory.Options{MaxKeys: 1000, MaxLogEntries: 256})
		if share := r.honest("s", clients, hundredPerMinute, 500); share > 0 {
			t.Errorf("%d clients: %.2f%% of the requests were denied", clients, 100*share)
		}
	}
}

// A log that holds all entries yields to logs of its own scope that need some: clients
// that make every request that they may are denied none.
func TestALongLogYieldsToShortOnesOfItsScope(t *testing.T) {
	r := newReplay(t, memory.Options{MaxKeys: 1000, MaxLogEntries: 1024})
	heavy := limits.SlidingLog(limits.PerDay(10_000))
	for range 5000 {
		r.allowed("s", "heavy", heavy)
		r.now = r.now.Add(time.Second)
	}
	denied := 0
	for range 300 {
		for client := range 5 {
			if !r.allowed("s", fmt.Sprint(client), hundredPerMinute) {
				denied++
			}
		}
		r.allowed("s", "heavy", heavy)
		r.now = r.now.Add(600 * time.Millisecond)
	}
	if denied > 0 {
		t.Errorf("%d of 1,500 requests at the limit were denied", denied)
	}
}

// A scope with keys that are free to invent holds all nodes. A client of another
// scope may still make all the requests that it may, less a few.
func TestAFloodOfLogsLeavesAnotherScopeItsShare(t *testing.T) {
	r := newReplay(t, memory.Options{MaxKeys: 4000, MaxLogEntries: 4096})
	flood := 0
	denied, requests := 0, 0
	for range 300 {
		for range 200 { // three requests for each key of the flood
			flood++
			for range 3 {
				r.allowed("flood", fmt.Sprint(flood), limits.SlidingLog(limits.PerHour(1000)))
				r.now = r.now.Add(time.Millisecond)
			}
		}
		if flood > 3000 {
			flood = 0
		}
		for client := range 20 {
			requests++
			if !r.allowed("calm", fmt.Sprint(client), hundredPerMinute) {
				denied++
			}
		}
	}
	if denied > 0 {
		t.Errorf("%.2f%% of %d requests at the limit were denied", 100*float64(denied)/float64(requests), requests)
	}
}

// When there is room again, takings are remembered apart again.
func TestALogThatWasOutOfSpaceRecovers(t *testing.T) {
	r := newReplay(t, memory.Options{MaxKeys: 1000, MaxLogEntries: 256})
	limit := limits.SlidingLog(limits.PerMinute(50))
	exact := func() bool { // 50 requests in 50 seconds: each fits again a minute after it was made
		first := r.now
		for range 50 {
			if !r.allowed("s", "k", limit) {
				return false
			}
			r.now = r.now.Add(time.Second)
		}
		for i := range 50 {
			r.now = first.Add(time.Minute + time.Duration(i)*time.Second - time.Microsecond)
			if r.allowed("s", "k", limit) {
				t.Fatal("allowed a microsecond too early")
			}
			r.now = r.now.Add(time.Microsecond)
			if !r.allowed("s", "k", limit) {
				return false
			}
		}
		return true
	}
	if !exact() {
		t.Error("with all nodes to itself, the log is not exact")
	}
	r.now = r.now.Add(2 * time.Minute)
	for range 20 {
		for key := range 500 {
			r.allowed("s", fmt.Sprint("other ", key), limits.SlidingLog(limits.PerHour(1000)))
		}
		r.now = r.now.Add(time.Second)
	}
	if exact() {
		t.Error("among 500 others, with 256 nodes, the log is exact: this test shows nothing")
	}
	r.now = r.now.Add(time.Hour)
	if !exact() {
		t.Error("once the others have expired, the log is not exact")
	}
}
