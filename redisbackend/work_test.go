package redisbackend_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// most is how many keys wait to be decided or settled at once.
const most = 128

// largest are the largest legal limits of all algorithms.
var largest = []limits.Limit{
	limits.TokenBucket(limits.Per(1e9, 366*24*time.Hour), 1e9),
	limits.LeakyBucket(limits.Per(1e9, 366*24*time.Hour), 1e9),
	limits.LeakyQueue(limits.Per(1e9, 366*24*time.Hour), 1e9),
	limits.FixedWindow(limits.Per(1e9, 366*24*time.Hour)),
	limits.SlidingWindow(limits.Per(1e9, 366*24*time.Hour)),
	limits.SlidingLog(limits.Per(10_000, 366*24*time.Hour)),
	limits.AnchoredWindow(limits.Per(1e9, 366*24*time.Hour)),
	limits.Calendar(1e9, limits.Year),
	limits.Ban(limits.Per(1e9, 366*24*time.Hour), 366*24*time.Hour),
	limits.Concurrent(100_000),
}

// worst has the keys of b be in states that need most work, and charges, settles and gives back 128 of
// them at once. It calls done after each, with what it was.
func worst(t *testing.T, client *redis.Client, g *gate, b *redisbackend.Bare, done func(what string)) {
	all := func(of func(i int) backends.Charge) (groups [][]backends.Charge) {
		for i := range most {
			groups = append(groups, []backends.Charge{of(i)})
		}
		return groups
	}
	charged := func(what string, of func(i int) backends.Charge) [][]limits.Decision {
		t.Helper()
		groups := all(of)
		decisions, errs, wait := queue(t, t.Context(), b, g, groups)
		g.open()
		wait()
		for i, err := range errs {
			if err != nil {
				t.Fatalf("%s, key %d: %v", what, i, err)
			}
		}
		done(what)
		return decisions
	}
	settled := func(what string, endings []backends.Ending, differs func(limits.Settlement) bool) {
		t.Helper()
		for i, s := range settle(t, b, endings...) {
			if s.Err != nil || differs(s) {
				t.Fatalf("%s, ending %d: %+v", what, i, s)
			}
		}
		done(what)
	}

	for i, limit := range largest {
		of := func(cost int64) func(int) backends.Charge {
			return func(key int) backends.Charge { return lasting(fmt.Sprint(i), fmt.Sprint(key), limit, cost) }
		}
		charged(fmt.Sprint("taking, ", limit), of(2))
		decisions := charged(fmt.Sprint("taking again, ", limit), of(2))
		for _, final := range []int64{1, 5} {
			if limit.Algorithm().Holds() && final > 2 {
				continue
			}
			var endings []backends.Ending
			for key, d := range decisions {
				endings = append(endings, endingOf(of(2)(key), d[0], final))
			}
			settled(fmt.Sprintf("%d in the end, %v", final, limit), endings, func(s limits.Settlement) bool {
				drains := limit.Algorithm() <= limits.AlgorithmLeakyQueue // the unit, within 32 ms
				return s.Returned+s.Charged == 0 && !drains
			})
		}
		charged(fmt.Sprint("a denial, ", limit), of(limit.Burst()))
	}

	log, year := largest[5], largest[5].Rate().Period
	if log.Algorithm() != limits.AlgorithmSlidingLog {
		t.Fatal(log)
	}
	// logs have all keys have a log: so many takings, the first so long ago, which are a second apart.
	logs := func(n int, ago time.Duration) (takings []taking) {
		begun := time.Now().Add(-ago)
		for i := range n {
			takings = append(takings, takingAt(begun.Add(time.Duration(i)*time.Second), 1))
		}
		text := logText(log, takings)
		for key := range most {
			ok(t, client.Set(t.Context(), redisbackend.Name(b, "s", fmt.Sprint(key)), text, time.Hour).Err())
		}
		return takings
	}
	of := func(cost int64) func(int) backends.Charge {
		return func(key int) backends.Charge { return lasting("s", fmt.Sprint(key), log, cost) }
	}
	returned := func(what string, taking func(i int) taking, key func(i int) int) {
		t.Helper()
		var endings []backends.Ending
		for i := range most {
			endings = append(endings, taking(i).ending(fmt.Sprint(key(i)), log, 1))
		}
		settled(what, endings, func(s limits.Settlement) bool { return s.Returned != 1 })
	}
	apart := func(i int) int { return i }
	takings := logs(10_000, year/2)
	returned("a refund of the middle of each log", func(i int) taking { return takings[5000] }, apart)
	returned("refunds of the middle of a log", func(i int) taking { return takings[4850+i] }, func(int) int { return 0 })
	returned(
		"refunds all over a log", func(i int) taking { return takings[50+78*((i*37)%most)] }, func(int) int { return 1 },
	)
	charged("a denial by each log", of(5000))
	takings = logs(20_000, year/2)
	returned(
		"a refund of the middle of each log that owes as much as it holds", func(i int) taking { return takings[10_000] },
		apart,
	)
	logs(20_000, year+10_001*time.Second)
	charged("a taking of each log of which half does not count any more", of(1))
	logs(10_000, year/2)
	charged("each log after its limit has changed", func(key int) backends.Charge {
		return charge("s", fmt.Sprint(key), limits.SlidingLog(limits.Per(9_999, year)), 0)
	})
	charged("each log under another algorithm", func(key int) backends.Charge {
		return charge("s", fmt.Sprint(key), limits.FixedWindow(limits.Per(10_001, year)), 1)
	})

	thousand := limits.Distinct(limits.PerHour(1000))
	values := func(n int, from time.Time) {
		text := "d1000/h "
		for i := range n {
			text += fmt.Sprintf("%016x=%016d", i, from.UnixMicro()+int64(i))
		}
		for key := range most {
			name := redisbackend.NameUnder(b, thousand, "values", fmt.Sprint(key))
			ok(t, client.Set(t.Context(), name, text, time.Hour).Err())
		}
	}
	trying := func(value uint64) func(int) backends.Charge {
		return func(key int) backends.Charge {
			c := charge("values", fmt.Sprint(key), thousand, 1)
			c.Value = value
			return c
		}
	}
	values(999, time.Now().Add(-time.Minute))
	// Unlike those of instants, the digits of these are letters: so they stand nowhere else in a state.
	const known, denied = 0xabcdefabcdefabcd, 0xbcdefabcdefabcde
	charged("a new value of each key", trying(known))
	charged("a known value of each key", trying(known))
	charged("a denied value of each key", trying(denied))
	values(999, time.Now().Add(3*time.Hour))
	charged("values from before the clock stepped back", trying(known))

	held := func(ends time.Time) {
		var units []redis.Z
		for i := range 1000 {
			units = append(units, redis.Z{Score: float64(ends.UnixMicro()), Member: fmt.Sprintf("\x14%011d", i)})
		}
		for key := range most {
			name := redisbackend.HeldName(b, "held", fmt.Sprint(key))
			ok(t, client.Del(t.Context(), name).Err())
			ok(t, client.ZAdd(t.Context(), name, units...).Err())
		}
	}
	holding := func(key int) backends.Charge {
		return charge("held", fmt.Sprint(key), limits.Concurrent(100_000), 1)
	}
	held(time.Now().Add(-time.Second))
	charged("units of a process that has died", holding)
	held(time.Now().Add(time.Hour))
	charged("units from before the clock stepped back", holding)
	redisbackend.RenewAll(b)
	done("renewals")
}

// The work of scripts is counted by what runs them: commands, their bytes, and what is done with strings. A
// script that is worth 4,000 takes four milliseconds on a slow machine.
func TestNoCallIsMuchWorkWhateverItsKeysHaveDone(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	client.AddHook(metered{})
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	worst(t, admin, g, b, func(what string) {
		var heaviest, sum float64
		all := admin.LRange(t.Context(), "work", 0, -1).Val()
		for _, text := range all {
			work, err := strconv.ParseFloat(text, 64)
			ok(t, err)
			heaviest = max(heaviest, work)
			sum += work
		}
		ok(t, admin.Del(t.Context(), "work").Err())
		if t.Logf("%5.0f of %6.0f in %3d calls: %s", heaviest, sum, len(all), what); heaviest > 4000 || len(all) == 0 {
			t.Errorf("%s: a call of %.0f", what, heaviest)
		}
	})
}

// metered has a server run scripts that count their work.
type metered struct{}

func (metered) DialHook(next redis.DialHook) redis.DialHook { return next }

func (metered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		meter(cmd)
		return next(ctx, cmd)
	}
}

func (metered) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			meter(cmd)
		}
		return next(ctx, cmds)
	}
}

func meter(cmd redis.Cmder) {
	if args := cmd.Args(); args[0] == "evalsha" {
		args[0], args[1] = "eval", fmt.Sprintf(counting, redisbackend.Sources()[args[1].(string)])
	}
}

const counting = `
local work, server, texts = 0, redis, string

local function size(v) -- of a reply
  if type(v) == 'string' then
    return #v
  end
  local all = 8
  for _, part in ipairs(type(v) == 'table' and v or {}) do
    all = all + 64 + size(part)
  end
  return all
end

local function command(f)
  return function(...)
    local arguments = 0
    for i = 1, select('#', ...) do
      arguments = arguments + 64 + #tostring(select(i, ...))
    end
    local reply = f(...)
    work = work + 0.3 + (arguments + size(reply)) / 800
    if type(reply) == 'number' and string.sub(..., 1, 4) == 'ZREM' then
      work = work + reply / 10
    end
    return reply
  end
end

local redis = { call = command(server.call), pcall = command(server.pcall) }
local string = { char = texts.char, byte = texts.byte, gmatch = texts.gmatch, gsub = texts.gsub }
for name, cost in pairs({ format = 0.3, match = 0.3, rep = 0.1, sub = 0.1 }) do
  string[name] = function(...)
    work = work + cost + #tostring(texts[name](...) or '') / 800
    return texts[name](...)
  end
end
function string.find(text, ...)
  work = work + 0.3 + #text / 800
  return texts.find(text, ...)
end

local function script()
%s
end
local reply = script()
server.call('RPUSH', 'work', work)
return reply`

// What is much work is slow: in the same run no call takes twelve times as long as one of as many plain
// keys.
func TestNoCallIsSlowWhateverItsKeysHaveDone(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "times of the server")
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	ok(t, admin.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	ok(t, admin.ConfigSet(t.Context(), "slowlog-max-len", "100000").Err())
	longest := make(map[string]time.Duration) // the shortest of rounds: the machine may have been busy
	var order []string
	note := func(what string) {
		var all []time.Duration
		for _, entry := range admin.SlowLogGet(t.Context(), -1).Val() {
			if entry.Args[0] == "evalsha" {
				all = append(all, entry.Duration)
			}
		}
		ok(t, admin.Do(t.Context(), "slowlog", "reset").Err())
		if len(all) == 0 {
			t.Fatalf("%s: no calls", what)
		}
		if longest[what] == 0 {
			longest[what] = slices.Max(all)
			order = append(order, what)
		}
		longest[what] = min(longest[what], slices.Max(all))
	}
	for round := range 5 {
		b := newBare(client)
		if round == 0 { // the scripts are not known yet
			worst(t, admin, g, b, func(string) {})
			ok(t, admin.Do(t.Context(), "slowlog", "reset").Err())
		} else {
			worst(t, admin, g, b, note)
		}
		ok(t, b.Close()) // or it renews, and the gate holds up two calls
	}
	plain := longest[fmt.Sprint("taking, ", largest[3])]
	for _, what := range order {
		if t.Logf("%8v %s", longest[what], what); longest[what] > 12*plain {
			t.Errorf("%s takes %v, a call of %d plain keys %v", what, longest[what], most, plain)
		}
	}
}
