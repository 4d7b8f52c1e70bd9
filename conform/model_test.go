package conform

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// answersOf draws requests and decides them by a limit.
func answersOf(random *rand.Rand, limit limits.Limit, n int) []exchange {
	server := newExact(limit)
	return answersBy(random, n, func(now time.Time) bool { return server.take(now, 1).Allowed })
}

// answersBy draws requests and decides each at an instant between its sending and its answer.
func answersBy(random *rand.Rand, n int, allow func(time.Time) bool) (answers []exchange) {
	now := time.Unix(1_800_000_000, int64(random.IntN(1e9)))
	for range n {
		now = now.Add(leastGap + time.Duration(random.ExpFloat64()*float64(100*time.Millisecond)))
		x := exchange{sent: now, denial: 429, status: 200}
		now = now.Add(time.Duration(random.IntN(20_000)) * time.Microsecond)
		if !allow(now) {
			x.status = 429
		}
		now = now.Add(time.Duration(random.IntN(20_000)) * time.Microsecond)
		x.answered = now
		answers = append(answers, x)
	}
	return answers
}

func TestTheModelExplainsWhatTheLimitItselfAnswers(t *testing.T) {
	seed := testrun.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range testrun.Sized(300, 3000) {
		limit := weirs[random.IntN(len(weirs))]
		answers := answersOf(random, limit, 100)
		found, _ := differ(limit, answers)
		if found != nil {
			t.Fatalf("%v: %s\n%q", limit, found.text, story(answers[:found.at+1], 20))
		}
	}
}

// Articles define a sliding window by a weight that is no whole number, and none says how it is rounded.
func TestTheModelAllowsEachWayToRound(t *testing.T) {
	seed := testrun.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	const units, period = 10, 2 * time.Second
	limit := limits.SlidingWindow(limits.Per(units, period))
	for name, round := range map[string]func(float64) float64{
		"down": math.Floor, "up": math.Ceil, "to the nearest": math.Round, "not at all": func(x float64) float64 { return x },
	} {
		for range 50 {
			counts := make(map[int64]float64) // by window
			answers := answersBy(random, 100, func(now time.Time) bool {
				window := now.UnixNano() / int64(period)
				left := 1 - float64(now.UnixNano()%int64(period))/float64(period)
				if round(counts[window-1]*left)+counts[window]+1 > units {
					return false
				}
				counts[window]++
				return true
			})
			found, _ := differ(limit, answers)
			if found != nil {
				t.Fatalf("rounded %s: %s\n%q", name, found.text, story(answers[:found.at+1], 20))
			}
		}
	}
}

func TestTheModelFindsAnotherLimit(t *testing.T) {
	seed := testrun.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct{ promised, served limits.Limit }{
		{limits.SlidingLog(limits.Per(10, 2e9)), limits.FixedWindow(limits.Per(10, 2e9))},
		{limits.SlidingLog(limits.Per(10, 2e9)), limits.SlidingLog(limits.Per(11, 2e9))},
		{limits.FixedWindow(limits.Per(10, 2e9)), limits.SlidingLog(limits.Per(10, 2e9))},
		{limits.TokenBucket(limits.Per(10, 2e9), 10), limits.TokenBucket(limits.Per(15, 2e9), 10)},
		{limits.AnchoredWindow(limits.Per(10, 2e9)), limits.TokenBucket(limits.Per(10, 2e9), 10)},
		{limits.SlidingWindow(limits.Per(10, 2e9)), limits.SlidingLog(limits.Per(10, 2e9))},
	} {
		noticed := 0
		for range 50 {
			if found, _ := differ(c.promised, answersOf(random, c.served, 100)); found != nil {
				noticed++
			}
		}
		if noticed < 25 {
			t.Errorf("%v in place of %v: %d of 50 are noticed", c.served, c.promised, noticed)
		}
	}
}
