package redisbackend_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
)

func settle(t testing.TB, s backends.Settler, endings ...backends.Ending) []limits.Settlement {
	t.Helper()
	out := make([]limits.Settlement, len(endings))
	if err := s.Settle(context.Background(), endings, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// pair is a key in memory and the same one on Redis, by one clock.
type pair struct {
	testing.TB
	now     time.Time
	memory  *memory.Memory
	remote  *redisbackend.Bare
	tickets map[int64]int64 // of memory, by that of Redis for the same taking
	log     []string
}

func newPair(t testing.TB, client redis.Scripter) *pair {
	p := &pair{TB: t, now: time.UnixMicro(1_767_268_800_123_456), tickets: make(map[int64]int64)}
	clock := func() time.Time { return p.now }
	p.memory = memory.MustNew(memory.Options{Clock: clock})
	p.remote = bareAt(client, clock)
	return p
}

// note keeps what was done, to be shown if it went wrong.
func (p *pair) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf("%v ", p.now.UnixMicro())+fmt.Sprintf(format, args...))
}

func (p *pair) same(what, want, got any) bool {
	p.Helper()
	diff := cmp.Diff(want, got)
	if diff != "" {
		for _, line := range p.log[max(0, len(p.log)-20):] {
			p.Log(line)
		}
		p.Errorf("%v: memory (-), Redis (+):\n%s", what, diff)
	}
	return diff == ""
}

// take takes from both and reports whether their decisions are equal.
func (p *pair) take(charges ...backends.Charge) ([]limits.Decision, bool) {
	p.Helper()
	want, got := take(p, p.memory, charges...), take(p, p.remote, charges...)
	p.note("take %+v: %+v", charges, got)
	for i := range got {
		p.tickets[got[i].Ticket] = want[i].Ticket
	}
	return got, p.same("take", withTickets(charges, want), withTickets(charges, got))
}

// withTickets returns decisions with 1 for each ticket that means something: units that
// were taken and may be settled have one. What it is is the backend's own business.
func withTickets(charges []backends.Charge, decisions []limits.Decision) []limits.Decision {
	allowed := true
	for i := range decisions {
		allowed = allowed && (decisions[i].Allowed || charges[i].Shadow)
	}
	decisions = slices.Clone(decisions)
	for i := range decisions {
		d := &decisions[i]
		if !allowed || !d.Allowed || charges[i].Lasts == 0 || charges[i].Cost == 0 {
			d.Ticket = 0
		}
		d.Ticket = min(d.Ticket, 1)
	}
	return decisions
}

// settle settles endings of takings from Redis, and the same of memory.
func (p *pair) settle(endings ...backends.Ending) bool {
	p.Helper()
	same := slices.Clone(endings)
	for i := range same {
		same[i].Ticket = p.tickets[same[i].Ticket]
	}
	want, got := settle(p, p.memory, same...), settle(p, p.remote, endings...)
	p.note("settle %+v: %+v", endings, got)
	return p.same("settle", want, got)
}

// What Redis decides and settles is what memory does, in random histories of takings,
// refunds, charges, resets and changed limits. Where the clock steps back they differ: the time of a
// Memory goes on.
func TestSettlementsAreThoseOfMemory(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	seed := testrun.Seed(t)
	for i := range sized(2000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		if !settleAtRandom(newPair(t, client), random) {
			t.Fatalf("history %d", i)
		}
	}
}

// randomLimits returns limits between which a history changes. Most are of one algorithm.
func randomLimits(random *rand.Rand) []limits.Limit {
	period := time.Duration(1000+random.Int64N(50_000)) * time.Microsecond
	kind := random.IntN(10)
	var choices []limits.Limit
	for range 1 + random.IntN(3) {
		units, most := 1+random.Int64N(30), 1+random.Int64N(30)
		if random.IntN(4) == 0 {
			period = time.Duration(1000+random.Int64N(50_000)) * time.Microsecond
		}
		if random.IntN(6) == 0 {
			kind = random.IntN(10)
		}
		rate := limits.Per(units, period)
		if len(choices) > 0 && random.IntN(2) == 0 {
			rate = choices[0].Rate() // of a bucket only the burst changes
		}
		choices = append(choices, []limits.Limit{
			limits.TokenBucket(rate, most),
			limits.LeakyBucket(rate, most),
			limits.LeakyQueue(rate, most),
			limits.FixedWindow(limits.Per(most, period)),
			limits.SlidingWindow(limits.Per(most, period)),
			limits.SlidingLog(limits.Per(most, period)),
			limits.AnchoredWindow(limits.Per(most, period)),
			limits.Ban(limits.Per(most, period), time.Duration(1000+random.Int64N(100_000))*time.Microsecond),
			limits.Calendar(most, limits.Day), limits.Calendar(most, limits.Month),
		}[kind])
	}
	return choices
}

func settleAtRandom(p *pair, random *rand.Rand) bool {
	choices := randomLimits(random)
	limit := choices[0]
	period := limit.Rate().Period
	lasts := time.Duration(1+random.Int64N(4*period.Microseconds())) * time.Microsecond
	var open []backends.Ending
	for range 60 {
		c := charge("s", "k", limit, random.Int64N(2+limit.Burst()/2))
		switch random.IntN(3) {
		case 0:
			c.Lasts = lasts
		case 1:
			if random.IntN(20) == 0 {
				c.Lasts = 2 * lasts
			}
		}
		switch what := random.IntN(20); {
		case what < 9:
			c.Lasts = lasts
			charges := []backends.Charge{c}
			if random.IntN(8) == 0 {
				shadow := c
				shadow.Shadow, shadow.Cost = true, random.Int64N(3)
				charges = append(charges, shadow)
			}
			if random.IntN(8) == 0 {
				charges = append(charges, charge("other", "k", limits.FixedWindow(limits.Per(5, period)), 1))
			}
			got, same := p.take(charges...)
			if !same {
				return false
			}
			if d := got[0]; d.Allowed && (len(charges) == 1 || got[len(got)-1].Allowed) && c.Cost > 0 {
				open = append(
					open, backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: c.Cost, Ticket: d.Ticket, Lasts: c.Lasts},
				)
			}
		case what < 11: // one that has no end
			if _, same := p.take(c); !same {
				return false
			}
		case what < 17 && len(open) > 0:
			i := random.IntN(len(open))
			endings := []backends.Ending{open[i]}
			open = append(open[:i], open[i+1:]...)
			if len(open) > 0 && random.IntN(4) == 0 {
				endings = append(endings, open[0])
				open = open[1:]
			}
			for j := range endings {
				e := &endings[j]
				switch random.IntN(6) {
				case 0, 1:
					e.Final = 0
				case 2:
					e.Final = random.Int64N(e.Taken + 1)
				case 3, 4:
					e.Final = e.Taken + random.Int64N(2+limit.Burst())
				default:
					e.Final = e.Taken + 1<<random.IntN(62)
				}
			}
			if !p.settle(endings...) {
				return false
			}
			if random.IntN(50) == 0 && !p.settle(endings...) { // a caller's mistake
				return false
			}
		case what == 17 && random.IntN(3) == 0:
			limit = choices[random.IntN(len(choices))]
			p.note("limit %v", limit)
		case what == 18 && random.IntN(4) == 0:
			ok(p, p.memory.Reset(context.Background(), "s", "k"))
			ok(p, p.remote.Reset(context.Background(), "s", "k"))
			p.note("reset")
		}
		switch step := random.IntN(12); {
		case step < 5:
		case step < 8:
			p.now = p.now.Add(time.Duration(random.Int64N(1+period.Microseconds()/4)) * time.Microsecond)
		case step < 10:
			p.now = p.now.Add(time.Duration(random.Int64N(1+2*period.Microseconds())) * time.Microsecond)
		case step == 10 && random.IntN(6) == 0:
			p.now = p.now.Add(time.Duration(random.Int64N(20*period.Microseconds())) * time.Microsecond)
		}
		if _, same := p.take(charge("s", "k", limit, 0)); !same {
			return false
		}
	}
	return true
}
