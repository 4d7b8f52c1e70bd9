package redisbackend_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
)

// shared is a key on Redis, beside the same key in a model that never sees what
// is given back.
type shared struct {
	testing.TB
	backend *redisbackend.Bare
	model   *limitstest.Exact
	client  redis.UniversalClient
	now     time.Time
	held    time.Time // the latest instant at which a taking was seen that the model did not see
	key     string
	limit   limits.Limit
	lasts   time.Duration // charges do
}

func newShared(t testing.TB, client redis.UniversalClient, key string, limit limits.Limit) *shared {
	s := &shared{TB: t, client: client, key: key, limit: limit, now: time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)}
	s.backend = bareAt(client, func() time.Time { return s.now })
	s.model = limitstest.NewExact(func() time.Time {
		if s.held.After(s.now) {
			return s.held
		}
		return s.now
	})
	return s
}

func (s *shared) charge(cost int64) backends.Charge {
	c := charge("s", s.key, s.limit, cost)
	c.Lasts = s.lasts
	return c
}

func (s *shared) after(d time.Duration) *shared { s.now = s.now.Add(d); return s }

// keep takes units that stay taken, and fails if the model denies them.
func (s *shared) keep(cost int64) {
	s.Helper()
	d := take(s, s.backend, s.charge(cost))[0]
	if d.Allowed {
		if exact := take(s, s.model, s.charge(cost))[0]; !exact.Allowed {
			s.Errorf("%v: %d units were admitted too many: %+v, as if nothing had been given back %+v", s.limit, cost, d, exact)
		}
	}
}

// share takes units that are to be given back.
func (s *shared) share(cost int64) (giveBack func() bool, ok bool) {
	s.Helper()
	d, give, err := redisbackend.TakeToGiveBack(s.Context(), s.backend, s.charge(cost))
	if err != nil {
		s.Fatal(err)
	}
	if d.Allowed && cost > 0 && s.now.After(s.held) {
		s.held = s.now
	}
	return func() bool {
		s.Helper()
		given, err := give()
		if err != nil {
			s.Fatal(err)
		}
		return given
	}, d.Allowed
}

// mustShare is share for units that fit.
func (s *shared) mustShare(cost int64) (giveBack func() bool) {
	s.Helper()
	give, ok := s.share(cost)
	if !ok {
		s.Fatalf("%v: %d units do not fit", s.limit, cost)
	}
	return give
}

// looks returns what Redis and the model say of the key.
func (s *shared) looks() (got, model limits.Decision) {
	s.Helper()
	return take(s, s.backend, s.charge(0))[0], take(s, s.model, s.charge(0))[0]
}

// same fails unless Redis says of the key what the model does.
func (s *shared) same(what string) {
	s.Helper()
	if got, want := s.looks(); got != want {
		s.Errorf("%v: %s: got %+v, want %+v", s.limit, what, got, want)
	}
}

// gives fails unless a give-back gives back something, or nothing.
func (s *shared) gives(want bool, giveBack func() bool, when string) {
	s.Helper()
	if got := giveBack(); got != want {
		s.Errorf("%v: a give-back %s reports %v, want %v", s.limit, when, got, want)
	}
}

func TestWhatIsGivenBackIsAsIfNeverTaken(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for i, limit := range everyAlgorithm {
		for _, later := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond, 100 * time.Millisecond} {
			s := newShared(t, client, fmt.Sprint(i), limit)
			s.keep(5)
			giveBack := s.after(150 * time.Millisecond).mustShare(3)
			s.after(later).gives(true, giveBack, "after "+later.String())
			s.same("after the give-back")
			s.after(time.Second).same("a second later")
			s.keep(2)
			s.same("after another taking")
			s.after(time.Hour).same("an hour later")
		}
	}
}

func TestGivingBackAllLeavesNoState(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, limit := range everyAlgorithm {
		s := newShared(t, client, "k", limit)
		first := s.mustShare(2)
		s.after(time.Millisecond)
		second := s.mustShare(3)
		s.gives(true, second, "of the latest")
		s.gives(true, first, "of the one before")
		s.same("with nothing in use")
		if n := client.Exists(t.Context(), redisbackend.NameUnder(s.backend, limit, "s", "k")).Val(); n != 0 {
			t.Errorf("%v: a state is left", limit)
		}
		s.gives(false, first, "to no state")
		if n := client.Exists(t.Context(), redisbackend.NameUnder(s.backend, limit, "s", "k")).Val(); n != 0 {
			t.Errorf("%v: a give-back made a state", limit)
		}
	}
}

func TestOthersThatTookInBetweenKeepWhatTheyTook(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, limit := range everyAlgorithm {
		s := newShared(t, client, "k", limit)
		s.keep(2)
		giveBack := s.after(time.Millisecond).mustShare(3)
		s.after(time.Millisecond).keep(2)
		s.after(time.Millisecond)
		if limit.Algorithm().Delays() {
			before, _ := s.looks()
			s.gives(false, giveBack, "with somebody queued behind")
			if after, _ := s.looks(); after != before {
				t.Errorf("%v: got %+v, want %+v", limit, after, before)
			}
			continue
		}
		s.gives(true, giveBack, "with others behind")
		got, model := s.looks()
		if late := got.ResetAfter - model.ResetAfter; late < 0 || late > time.Millisecond {
			t.Errorf("%v: fresh %v after what would be without the taking, want at most the 1ms until another took", limit, late)
		}
		if s.after(time.Millisecond); limit.Algorithm() >= limits.AlgorithmFixedWindow {
			s.same("with others behind")
		}
	}
}

func TestABucketLosesOnlyWhatHasNotDrainedSince(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	s := newShared(t, client, "k", limits.TokenBucket(limits.PerSecond(10), 10))
	giveBack := s.mustShare(3) // drained in 300ms
	s.after(200 * time.Millisecond).keep(1)
	s.gives(true, giveBack, "after two of three units have drained")
	s.same("with one unit given back")
	s = newShared(t, client, "k", limits.TokenBucket(limits.PerSecond(10), 10))
	giveBack = s.mustShare(2)
	s.after(200 * time.Millisecond).keep(9)
	s.gives(false, giveBack, "after all has drained")
	s.same("with nothing given back")
}

func TestAWindowLosesOnlyWhatStillCounts(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	fixed := newShared(t, client, "k", limits.FixedWindow(limits.PerMinute(10)))
	giveBack := fixed.mustShare(4)
	fixed.after(time.Minute).keep(5)
	fixed.gives(false, giveBack, "of a window that is over")
	fixed.same("in the next window")

	sliding := newShared(t, client, "k", limits.SlidingWindow(limits.PerMinute(10)))
	sliding.keep(3)
	first, second := sliding.mustShare(4), sliding.mustShare(2)
	sliding.after(time.Minute).keep(1)
	sliding.gives(true, first, "of the window before")
	sliding.after(time.Minute).keep(1)
	sliding.gives(false, second, "of the window before that")
	sliding.same("two windows later")
}

// A window that only the taking has opened, with which others took later, would have
// opened with theirs, and close later.
func TestAnAnchoredWindowIsNotGivenBackWhatOpenedItForOthers(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	limit := limits.AnchoredWindow(limits.PerMinute(10))
	remaining := func(s *shared, want int64, reset time.Duration, when string) {
		t.Helper()
		if got := take(s, s.backend, s.charge(0))[0]; got.Remaining != want || got.ResetAfter != reset {
			t.Errorf("%s: %d remain, and it closes in %v, want %d and %v", when, got.Remaining, got.ResetAfter, want, reset)
		}
	}

	alone := newShared(t, client, "alone", limit)
	giveBack := alone.mustShare(4)
	alone.after(time.Second).gives(true, giveBack, "that opened a window for nobody else")
	alone.same("without a window")
	alone.keep(1)
	alone.same("with a window that opened a second later")

	others := newShared(t, client, "others", limit)
	giveBack = others.mustShare(4)
	others.after(time.Second).keep(2)
	others.gives(false, giveBack, "that opened the window of others")
	remaining(others, 4, 59*time.Second, "with others later")

	together := newShared(t, client, "together", limit)
	first, second := together.mustShare(4), together.mustShare(2)
	together.after(time.Second).keep(3)
	together.gives(true, first, "that opened the window together with another")
	remaining(together, 5, 59*time.Second, "with one of two gone")
	together.gives(false, second, "of the last that opened it")
	remaining(together, 5, 59*time.Second, "with the last not given back")

	closed := newShared(t, client, "closed", limit)
	giveBack = closed.mustShare(4)
	closed.after(time.Minute).keep(5)
	closed.gives(false, giveBack, "of a window that is closed")
	closed.same("in the next window")

	converted := newShared(t, client, "converted", limits.AnchoredWindow(limits.PerHour(10)))
	converted.keep(3)
	converted.limit = limit
	giveBack = converted.after(time.Second).mustShare(4)
	converted.gives(true, giveBack, "of a window that the change of limit opened, as a denied request does")
	remaining(converted, 7, time.Minute, "after a change of limit")
}

func TestALogLosesOneEntry(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	s := newShared(t, client, "k", limits.SlidingLog(limits.PerMinute(100)))
	s.keep(5)
	twins := []func() bool{s.mustShare(4), s.mustShare(3), s.mustShare(4), s.mustShare(2)} // all at one instant
	s.keep(4)
	s.after(20 * time.Second).keep(7)
	for _, i := range []int{2, 0, 3, 1} {
		s.gives(true, twins[i], "of one of several at one instant")
	}
	s.same("with four entries gone")
	s.after(30 * time.Second)
	last := s.mustShare(1)
	s.after(29 * time.Second)
	s.gives(true, last, "of the last one")
	s.after(2 * time.Second).keep(1)
}

// Nothing is taken from those who count by another limit, and nothing given to
// those whose state is another.
func TestAChangedLimitIsGivenNothing(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for i, limit := range everyAlgorithm {
		for j, changed := range everyAlgorithm {
			if i == j {
				continue
			}
			s := newShared(t, client, fmt.Sprint(i, j), limit)
			s.keep(2)
			giveBack := s.mustShare(3)
			s.limit = changed
			take(t, s.backend, s.charge(1))
			before := take(t, s.backend, s.charge(0))[0]
			s.gives(false, giveBack, "under "+changed.String())
			if after := take(t, s.backend, s.charge(0))[0]; after != before {
				t.Errorf("%v, then %v: got %+v, want %+v", limit, changed, after, before)
			}
		}
	}
}

func TestAClockThatStepsBackIsHeldByWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, limit := range everyAlgorithm {
		if limit.Algorithm() == limits.AlgorithmSlidingLog {
			continue // has no other instant than those of its entries
		}
		s := newShared(t, client, "k", limit)
		s.keep(6)
		giveBack := s.after(10 * time.Millisecond).mustShare(3)
		s.after(-9*time.Millisecond).gives(true, giveBack, "with the clock behind the taking")
		got, model := s.looks()
		if got.Remaining != model.Remaining {
			t.Errorf("%v: %d remain, want %d", limit, got.Remaining, model.Remaining)
		}
		s.keep(got.Remaining)
		s.after(20 * time.Millisecond).keep(1)
	}
}

// The clock had stepped back into another slice of the levels that a bucket remembers. Takings
// before have found more than the one that is given back did.
func TestLevelsOfAnEarlierSliceCreditNoUnitTooMany(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	s := newShared(t, client, "k", limits.TokenBucket(limits.PerSecond(1000), 10000))
	s.lasts = 8 * time.Second // slices of a second
	s.keep(1850)
	s.after(50 * time.Millisecond).keep(1)
	s.after(1750 * time.Millisecond).keep(1)
	giveBack := s.after(-900 * time.Millisecond).mustShare(1000)
	s.after(1400 * time.Millisecond).keep(1)
	giveBack()
	if got, model := s.looks(); got.Remaining > model.Remaining {
		t.Errorf("%d remain, want %d at most", got.Remaining, model.Remaining)
	}
}

// The command is sent by a client that repeats what it has no reply to.
func TestAGiveBackWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, Dialer: loser(&lose)})
	defer client.Close()
	givesBackOnce(t, client, &lose)
}

func givesBackOnce(t *testing.T, client redis.UniversalClient, lose *atomic.Bool) {
	for _, limit := range everyAlgorithm {
		for _, known := range []bool{true, false} {
			s := newShared(t, client, "k", limit)
			s.keep(5)
			_, give, err := redisbackend.TakeToGiveBack(t.Context(), s.backend, s.charge(2))
			ok(t, err)
			if !known {
				ok(t, client.ScriptFlush(t.Context()).Err())
			}
			lose.Store(true)
			if _, err := give(); err == nil {
				t.Errorf("%v: the reply was lost: no error", limit)
			}
			if lose.Load() {
				t.Errorf("%v: no reply was lost", limit)
			}
			s.same("after a give-back without a reply")
		}
	}
}

// loser dials connections that lose a reply when told to.
func loser(lose *atomic.Bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &lossy{Conn: conn, lose: lose}, err
	}
}

// lossy is a connection that, when told to lose a reply to a script, waits for it
// and then breaks.
type lossy struct {
	net.Conn
	lose   *atomic.Bool
	losing bool
}

func (c *lossy) Write(p []byte) (int, error) {
	c.losing = c.losing || c.lose.Load() && bytes.Contains(p, []byte("eval")) // a long command is several writes
	return c.Conn.Write(p)
}

func (c *lossy) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.losing && n > 0 && bytes.HasPrefix(p[:n], []byte("-NOSCRIPT")) {
		c.losing = false
	} else if c.losing && n > 0 {
		c.lose.Store(false)
		c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

// Whatever is taken and given back, in whatever order, Redis never admits what a
// model denies that has seen only what stayed taken. Clocks step back and limits
// change, each to one that was not in force before.
func TestGiveBacksNeverCreditAUnitTooMany(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	seed := testrun.Seed(t)
	given := 0
	runs := testrun.Sized(30, 90)
	for i := 0; i < runs && !t.Failed(); i++ {
		given += interleave(t, client, rand.New(rand.NewPCG(seed, uint64(i))), i)
	}
	if given < 3*runs {
		t.Errorf("only %d takings were given back: the test shows little", given)
	}
}

func interleave(t *testing.T, client *redis.Client, random *rand.Rand, i int) (given int) {
	units, period := 1+random.Int64N(20), time.Duration(1+random.Int64N(50))*time.Millisecond
	period += time.Duration(random.IntN(3)) * time.Microsecond
	limitOf := func(most int64) limits.Limit {
		return []limits.Limit{
			limits.TokenBucket(limits.Per(units, period), most),
			limits.LeakyBucket(limits.Per(units, period), most),
			limits.LeakyQueue(limits.Per(units, period), most),
			limits.FixedWindow(limits.Per(most, period)),
			limits.SlidingWindow(limits.Per(most, period)),
			limits.SlidingLog(limits.Per(most, period)),
			limits.AnchoredWindow(limits.Per(most, period)),
		}[i%7]
	}
	most := 1 + random.Int64N(30)
	s := newShared(t, client, fmt.Sprint(i), limitOf(most))
	used := map[int64]bool{most: true}
	var pending []func() bool
	var fresh time.Time // the latest instant at which the key was: what there was before may be forgotten
	for range 80 {
		if _, model := s.looks(); i%7 == 6 && model.ResetAfter == 0 {
			s.keep(1) // a window that is open already: one that a taking opens which is given back opens too early
		}
		if s.lasts = 0; i%2 == 1 && random.IntN(2) == 0 {
			s.lasts = period / 2
		}
		switch random.IntN(8) {
		case 0, 1, 2:
			s.keep(1 + random.Int64N(1+most/3))
		case 3, 4:
			if give, ok := s.share(1 + random.Int64N(1+most/3)); ok {
				pending = append(pending, give)
			}
		case 5, 6:
			if len(pending) > 0 {
				j := random.IntN(len(pending))
				if pending[j]() {
					given++
				}
				pending = append(pending[:j], pending[j+1:]...)
			}
		case 7:
			next := 1 + random.Int64N(40)
			if i%7 < 3 { // buckets: a taking that is given back, too, would hold the level to a smaller burst
				next = most + 1 + random.Int64N(5)
			}
			if random.IntN(4) == 0 && !used[next] {
				used[next], most, s.limit = true, next, limitOf(next)
			}
		}
		got, model := s.looks()
		if got.Remaining > model.Remaining {
			t.Errorf("%v: %d remain on Redis, %d as if nothing had been given back", s.limit, got.Remaining, model.Remaining)
			return given
		}
		if model.ResetAfter == 0 {
			fresh = s.now
		}
		switch random.IntN(6) {
		case 0, 1:
			s.after(time.Duration(random.Int64N(int64(period)/units) + 1))
		case 2:
			s.after(time.Duration(random.Int64N(int64(period))))
		case 3:
			back := s.now.Add(-time.Duration(random.Int64N(int64(period))))
			if !back.Before(s.held) && !back.Before(fresh) {
				s.now = back
			}
		}
		s.now = s.now.Truncate(time.Microsecond)
	}
	return given
}

// A request that another server denies bans nobody, unless it costs more than a ban counts.
func TestABanIsGivenBackUnlessItsCountIsFull(t *testing.T) {
	t.Parallel()
	b := redisbackend.MustNewBare(newClient(t, startRedis(t).addr), redisbackend.BareOptions{})
	limit := limits.Ban(limits.PerMinute(10), time.Hour)
	take(t, b, charge("s", "k", limit, 4))
	for _, cost := range []int64{1, 6, math.MaxUint32 - 5} {
		d, giveBack, err := redisbackend.TakeToGiveBack(t.Context(), b, charge("s", "k", limit, cost))
		if ok(t, err); !d.Allowed {
			t.Fatalf("%d: %+v", cost, d)
		}
		if _, err := giveBack(); err != nil {
			t.Fatal(err)
		}
		if d := take(t, b, charge("s", "k", limit, 0))[0]; !d.Allowed || d.Remaining != 6 {
			t.Errorf("%d were given back: %+v", cost, d)
		}
	}
	for _, cost := range []int64{math.MaxUint32 - 4, math.MaxUint32, 1 << 33, math.MaxInt64} {
		c := charge("s", fmt.Sprint(cost), limit, 4)
		take(t, b, c)
		c.Cost = cost
		_, giveBack, err := redisbackend.TakeToGiveBack(t.Context(), b, c)
		ok(t, err)
		if gave, err := giveBack(); gave || err != nil {
			t.Errorf("%d were given back to a count that is full, error %v", cost, err)
		}
	}
}
