package redisbackend

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Scripts are put together from files that are Lua by themselves.
func TestEachFileOfLuaParses(t *testing.T) {
	testrun.NeedsMiniredis(t)
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	names, err := files.ReadDir(".")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, f := range names {
		if err := client.ScriptLoad(t.Context(), file(strings.TrimSuffix(f.Name(), ".lua"))).Err(); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}

// A script takes what package family does: each decision of random requests is that of the state that
// package family has come to.
func TestTheScriptTakesWhatPackageFamilyDoes(t *testing.T) {
	testrun.NeedsMiniredis(t)
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	random := testrun.Random(t)
	now := time.UnixMicro(1_795_534_892_000_000 + random.Int64N(1e9))
	b := MustNewBare(client, BareOptions{})
	b.servers.now = func() time.Time { return now }
	WaitForEver(b)
	rate := func() limits.Rate {
		return limits.Per(1+random.Int64N(30), time.Duration(1+random.Int64N(50_000))*time.Microsecond+time.Millisecond)
	}
	for i := range testrun.Sized(40, 1000) {
		r, lasts := rate(), time.Duration(1+random.Int64N(100))*time.Millisecond
		choices := []limits.Limit{
			limits.TokenBucket(r, 1+random.Int64N(30)), limits.LeakyBucket(r, 1+random.Int64N(30)),
			limits.LeakyQueue(r, 1+random.Int64N(30)), limits.FixedWindow(r), limits.SlidingWindow(r),
			limits.AnchoredWindow(r), limits.Ban(r, lasts), limits.Calendar(r.Units, limits.Day),
			limits.Ban(r, lasts).Growing(time.Duration(1+random.Int64N(20)) * lasts),
		}
		limit := choices[random.IntN(len(choices))]
		compiled, numbers := family.Compile(limit)
		key := strconv.Itoa(i)
		var state family.Used
		for range 100 {
			now = now.Add(time.Duration(math.Pow(random.Float64(), 6) * float64(100*time.Millisecond)))
			if random.IntN(50) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(30 * time.Hour))))
			}
			n, out, want := random.Int64N(6), make([]limits.Decision, 1), limits.Decision{}
			after, told, fits := compiled.Decide(state, n, now.UnixMicro(), 0, nil)
			if numbers.Describe(&want, n, told, fits); fits && n > 0 {
				state, want.Delay = after, numbers.Queued(after, n)
			}
			want.At = now.UnixMicro()
			charges := []backends.Charge{{Key: key, Limit: limit, Cost: n}}
			if err := b.Take(t.Context(), charges, out); err != nil || out[0] != want {
				t.Fatalf("%v, %d units at %d of %+v: %v\n  %+v, want\n  %+v", limit, n, now.UnixMicro(), state, err, out[0], want)
			}
		}
	}
}

// counter is the file of a family whose limits have a further number. A state counts in b what each
// taking adds: that number.
const counter = `if letter == 'x' then
family = {
  decide = function(most, P, Q, asOf, at, a, b, n, _, _, R)
    local fits = n == 0 or a + n <= most
    if fits and n > 0 then
      at, a, b = asOf, a + n, b + R
    end
    return fits, at, a, b, P
  end,
}

if states then
  family.further = true
end
elseif`

func TestAFamilyReadsAFurtherNumberOfItsLimits(t *testing.T) {
	testrun.NeedsMiniredis(t)
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	source := strings.ReplaceAll(takeScript.Source, "if letter == 't'", counter+" letter == 't'")
	for _, step := range []struct{ limit, at, want, stored string }{
		{"x2/s/1/70 2 1000000 1 70", "5000000", " 1 0 0 0", "x2/s/1/70 5000000 1 70"},
		{"x2/s/1/70 2 1000000 1 70", "5000001", " 1 5000000 1 70", "x2/s/1/70 5000001 2 140"},
		{"x2/s/1/70 2 1000000 1 70", "5000002", " 0 5000001 2 140", "x2/s/1/70 5000001 2 140"},
		{"x3/s/1/70 3 1000000 1 70", "5000003", " 1 5000001 2 140", "x3/s/1/70 5000003 3 210"},
		{"x9/s/1/5 9 1000000 1 5", "5000004", " 1 5000004 3 5", "x9/s/1/5 5000004 4 10"},
	} {
		text := "7 " + step.at + step.want
		got, err := client.Eval(t.Context(), source, []string{"k"}, 7, step.at, "take 1 1", step.limit, 1).Text()
		if stored := client.Get(t.Context(), "k").Val(); err != nil || got != text || stored != WithoutZero(step.stored) {
			t.Errorf("%v: %v\n %q, stored %q", step, err, got, stored)
		}
	}
}
