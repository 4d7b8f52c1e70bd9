package line

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// changing is a Cluster in which a server keeps all slots until another takes over.
type changing struct {
	topology
	keeper    atomic.Pointer[redis.Client]
	questions atomic.Int64
	under     atomic.Int64 // questions under way
	most      atomic.Int64 // that were under way at once
}

// startChanging returns a Cluster whose servers answer after a time.
func startChanging(t *testing.T, answer time.Duration) (c *changing, master *redis.Client) {
	t.Helper()
	master = redis.NewClient(&redis.Options{Addr: "198.51.100.1:6379"})
	t.Cleanup(func() { master.Close() })
	c = new(changing)
	c.lost, c.opinion = make(map[*redis.Client]lostServer), secondOpinion
	c.keeper.Store(master)
	c.serverOf = func(string) (*redis.Client, error) { return c.keeper.Load(), nil }
	c.ask = func(context.Context) error {
		c.questions.Add(1)
		c.most.Store(max(c.most.Load(), c.under.Add(1)))
		time.Sleep(answer)
		c.under.Add(-1)
		return nil
	}
	return c, master
}

// missFor has requests miss a server every 10 ms.
func (c *changing) missFor(master *redis.Client, span time.Duration) {
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for range 100 {
			c.miss(master, "k", time.Now())
		}
	}
}

func TestAllRequestsTogetherAskFourTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, master := startChanging(t, time.Millisecond)
		c.missFor(master, 10*time.Second)
		if n := c.questions.Load(); n != 40 || c.most.Load() != 1 {
			t.Errorf("%d questions in 10 s, %d at once; want 40, one after the other", n, c.most.Load())
		}
		time.Sleep(lostFor + askEvery)
		synctest.Wait()
		n := c.questions.Load()
		time.Sleep(time.Minute)
		if more := c.questions.Load() - n; more != 0 || n > 46 {
			t.Errorf("%d questions, and %d more in a minute without requests; want 46 at most and none", n, more)
		}
	})
}

// Servers of a Cluster may differ for a while about which of them keeps a slot.
func TestServersThatDisagreeAreAskedFourTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, master := startChanging(t, time.Millisecond)
		other := redis.NewClient(&redis.Options{Addr: "198.51.100.2:6379"})
		defer other.Close()
		answer := c.ask
		c.ask = func(ctx context.Context) error {
			defer func() {
				if !c.keeper.CompareAndSwap(master, other) {
					c.keeper.Store(master)
				}
			}()
			return answer(ctx)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			c.miss(c.keeper.Load(), "k", time.Now())
		}
		if n := c.questions.Load(); n < 35 || n > 40 || c.most.Load() != 1 {
			t.Errorf("%d questions in 10 s, %d at once; want up to 40, one after the other", n, c.most.Load())
		}
		time.Sleep(time.Minute)
	})
}

// A client without ContextTimeoutEnabled waits for a silent server as long as its own time-outs say.
func TestQuestionsOfAClientDeafToDeadlinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, master := startChanging(t, 30*time.Second)
		c.missFor(master, 25*time.Second)
		if n := c.under.Load(); n != mostUnanswered {
			t.Errorf("%d calls are under way, want %d", n, mostUnanswered)
		}
		c.learn = func(context.Context, string) error { return nil }
		if err := c.learnFirst(t.Context(), "k"); !errors.Is(err, errUnanswered) || c.known.Load() {
			t.Errorf("one more question: %v, want %v", err, errUnanswered)
		}
		time.Sleep(time.Minute)
		if err := c.learnFirst(t.Context(), "k"); err != nil || !c.known.Load() {
			t.Errorf("a question after all were answered: %v", err)
		}
	})
}

func TestOneQuestionIsAskedIfAnotherServerHasTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, master := startChanging(t, time.Millisecond)
		replica := redis.NewClient(&redis.Options{Addr: "198.51.100.2:6379"})
		defer replica.Close()
		known := c.ask
		c.ask = func(ctx context.Context) error {
			defer c.keeper.Store(replica)
			return known(ctx)
		}
		for range 100 {
			c.miss(master, "k", time.Now())
		}
		time.Sleep(time.Minute)
		if n := c.questions.Load(); n != 1 {
			t.Errorf("%d questions, want one", n)
		}
	})
}

// A breaker that is open lets one request through each second, or each half.
func TestQuestionsGoOnBetweenTheProbesOfABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, master := startChanging(t, time.Millisecond)
		for range 10 {
			c.miss(master, "k", time.Now())
			time.Sleep(time.Second + 50*time.Millisecond)
		}
		if n := c.questions.Load(); n < 40 {
			t.Errorf("%d questions in 10 s, want 40", n)
		}
	})
}

func TestASilentServerDelaysNoQuestion(t *testing.T) {
	for name, first := range map[string]func(context.Context) error{
		"silent": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"deaf to its deadline": func(context.Context) error {
			time.Sleep(5 * time.Second)
			return errors.New("i/o timeout")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			asksUntil := func(last int64) (asked int64, took time.Duration, err error) {
				var n atomic.Int64
				begun := time.Now()
				err = (&topology{opinion: secondOpinion}).soonest(t.Context(), func(ctx context.Context) error {
					if n.Add(1) < last {
						return first(ctx)
					}
					return nil
				})
				return n.Load(), time.Since(begun), err
			}
			if asked, took, err := asksUntil(3); err != nil || took != 2*secondOpinion || asked != 3 {
				t.Errorf("%s: %v after %v and %d questions; want nil from the third", name, err, took, asked)
			}
			if asked, took, err := asksUntil(100); !errors.Is(err, context.DeadlineExceeded) ||
				took != CallTimeout || asked != mostOpinions {
				t.Errorf("%s, all of them: %v after %v and %d questions", name, err, took, asked)
			}
			time.Sleep(10 * time.Second)
		})
	}
}

func TestAQuestionThatFailsIsNotRepeatedAtOnce(t *testing.T) {
	refused := errors.New("connection refused")
	slow := topology{opinion: time.Hour}
	for name, tt := range map[string]struct {
		ask  func(context.Context) error
		want error
	}{
		"refused":   {func(context.Context) error { return refused }, refused},
		"a Goexit":  {func(context.Context) error { runtime.Goexit(); return nil }, errExited},
		"an answer": {func(context.Context) error { return nil }, nil},
	} {
		asked := 0
		err := slow.soonest(t.Context(), func(ctx context.Context) error { asked++; return tt.ask(ctx) })
		if !errors.Is(err, tt.want) || asked != 1 {
			t.Errorf("%s: %v after %d questions, want %v after one", name, err, asked, tt.want)
		}
	}
	if err := slow.soonest(t.Context(), func(context.Context) error { panic("hook") }); err == nil {
		t.Error("a panic of a hook is no error")
	}
}

// Calls to a dead server may fail after another has taken its place.
func TestAServerThatIsReplacedIsNotAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, master := startChanging(t, time.Millisecond)
		replica := redis.NewClient(&redis.Options{Addr: "198.51.100.2:6379"})
		defer replica.Close()
		c.keeper.Store(replica)
		c.miss(master, "k", time.Now())
		time.Sleep(time.Minute)
		if n := c.questions.Load(); n != 0 {
			t.Errorf("%d questions, want none", n)
		}
	})
}
