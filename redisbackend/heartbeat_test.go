package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// fleet is backends of one prefix that beat when they are told to, by one clock.
type fleet struct {
	*testing.T
	stepped
	client *redis.Client
	key    string
	beats  []func(context.Context, time.Duration) (int64, error)
}

func newFleet(t *testing.T, n int) *fleet {
	client := newClient(t, startRedis(t).addr)
	f := &fleet{T: t, client: client}
	options := redisbackend.BareOptions{Prefix: uniquePrefix()}
	f.stepped = newStepped(client, options)
	for range n {
		beat, key := redisbackend.Beats(f.sharing(client, options).Bare)
		f.beats, f.key = append(f.beats, beat), key
	}
	return f
}

// counts fails unless a beat of member i counts want members.
func (f *fleet) counts(i int, want int64) {
	f.Helper()
	f.counted(i, redisbackend.BeatLasts, want)
}

// leaves ends member i, and fails unless want members are left.
func (f *fleet) leaves(i int, want int64) {
	f.Helper()
	f.counted(i, 0, want)
}

func (f *fleet) counted(i int, lasts time.Duration, want int64) {
	f.Helper()
	if n, err := f.beats[i](f.Context(), lasts); err != nil || n != want {
		f.Errorf("member %d counts %d (%v), want %d", i, n, err, want)
	}
}

func TestABeatCountsThoseThatBeat(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.counts(0, 1)
	f.counts(1, 2)
	f.counts(0, 2)
	f.counts(2, 3)
	f.leaves(1, 2)
	f.leaves(1, 2)
	f.counts(0, 2)
	f.leaves(2, 1)
	f.leaves(0, 0)
	if n := f.client.Exists(t.Context(), f.key).Val(); n != 0 {
		t.Error("an empty set is left")
	}
}

func TestACrashedProcessCountsForTenSeconds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.counts(0, 1)
	f.counts(1, 2)
	f.after(redisbackend.BeatLasts - time.Microsecond)
	f.counts(2, 3)
	f.after(time.Microsecond)
	f.counts(2, 1)
}

func TestAStepOfTheClockKeepsNoCrashedProcess(t *testing.T) {
	t.Parallel()
	const crashed, living = 0, 1
	for _, step := range []time.Duration{
		-time.Hour, -redisbackend.BeatLasts, -time.Second, time.Second, time.Hour,
	} {
		f := newFleet(t, 2)
		f.counts(crashed, 1)
		f.counts(living, 2)
		f.after(step)
		for range 2 * redisbackend.BeatLasts / time.Second {
			f.after(time.Second)
			if _, err := f.beats[living](t.Context(), redisbackend.BeatLasts); err != nil {
				t.Error(err)
			}
		}
		f.counts(living, 1)
		member := f.client.ZRangeWithScores(t.Context(), f.key, 0, 0).Val()[0]
		if ends := f.clock().Add(redisbackend.BeatLasts).UnixMicro(); int64(member.Score) != ends {
			t.Errorf("after a step of %v the living process ends at %.0f, want %d", step, member.Score, ends)
		}
	}
}

// Only a server whose clock decides tells when the set expires.
func TestTheSetOfAnAbandonedFleetExpires(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	beat, key := redisbackend.Beats(newBare(client))
	if n, err := beat(t.Context(), redisbackend.BeatLasts); n != 1 || err != nil {
		t.Fatalf("counts %d, %v", n, err)
	}
	if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 10*time.Second || ttl > 11*time.Second {
		t.Errorf("it expires in %v, want 11s", ttl)
	}
}

func TestAFullServerCountsOn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.counts(0, 1)
	ok(t, f.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	f.counts(1, 2)
	f.leaves(0, 1)
}

// notes is a handler that keeps lines.
type notes struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func newNotes() *notes { return &notes{Handler: slog.DiscardHandler} }

func (n *notes) Enabled(context.Context, slog.Level) bool { return true }

func (n *notes) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprint(" ", a); return true })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
	return nil
}

func (n *notes) has(parts ...string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
next:
	for _, line := range n.lines {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		return true
	}
	return false
}

// Two processes beat on a real server, by the real clock.
func TestProcessesCountEachOther(t *testing.T) {
	t.Parallel() // a beat comes every 3 s
	server := startRedis(t)
	prefix := uniquePrefix()
	open := func() *redisbackend.Backend {
		b, err := redisbackend.Open("redis://"+server.addr, redisbackend.Options{Prefix: prefix, Heartbeat: true})
		ok(t, err)
		return b
	}
	first := open()
	defer first.Close()
	until(t, "the first counts itself", func() bool { return first.Instances() == 1 })
	second := open()
	until(t, "the second counts both at once", func() bool { return second.Instances() == 2 })
	until(t, "the first counts both", func() bool { return first.Instances() == 2 })
	if n := backends.Instances(first); n != 2 {
		t.Errorf("backends.Instances returns %d, want 2", n)
	}
	ok(t, second.Close())
	if n := newClient(t, server.addr).ZCard(t.Context(), prefix+":instances").Val(); n != 1 {
		t.Errorf("%d are counted after one was closed, want 1", n)
	}
}

func TestTheLogSaysThatNothingIsCounted(t *testing.T) {
	t.Parallel()
	server, log := startRedis(t), newNotes()
	b, err := redisbackend.Open("redis://"+server.addr, redisbackend.Options{Heartbeat: true, Logger: slog.New(log)})
	ok(t, err)
	defer b.Close()
	until(t, "it counts itself", func() bool { return b.Instances() == 1 })
	server.kill()
	until(t, "the log says so", func() bool {
		return log.has("WARN weir: instances are not counted: their number stays", "instances=1", "error=")
	})
	if n := b.Instances(); n != 1 {
		t.Errorf("without Redis the number is %d, want 1", n)
	}
}

func TestAValueThatIsNoSetIsNamed(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	beat, key := redisbackend.Beats(newBare(client))
	ok(t, client.Set(t.Context(), key, "text", 0).Err())
	if _, err := beat(t.Context(), redisbackend.BeatLasts); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("error %v, want one that says WRONGTYPE", err)
	}
}

func TestWithoutHeartbeatNothingIsCounted(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	b := redisbackend.MustNew(client, redisbackend.Options{})
	if n := b.Instances(); n != 0 {
		t.Errorf("%d instances, want 0", n)
	}
	ok(t, b.Close())
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("keys %q, want none", keys)
	}
}

// A backend whose construction fails leaves nothing that runs.
func TestAHeartbeatBeginsLast(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	_, err := redisbackend.New(client, redisbackend.Options{
		Heartbeat: true, Wrap: func(backends.Backend) backends.Backend { return nil },
	})
	if err == nil {
		t.Fatal("a Wrap that returns nil is no error")
	}
	b := redisbackend.MustNew(client, redisbackend.Options{Prefix: uniquePrefix(), Heartbeat: true})
	until(t, "another backend counts", func() bool { return b.Instances() == 1 })
	ok(t, b.Close())
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("keys %q, want none", keys)
	}
}

func TestTheErrorOfAForbiddenBeatNamesTheCommands(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	prefix := uniquePrefix()
	user(t, admin, prefix, aclDecide)
	client := redis.NewClient(&redis.Options{Addr: server.addr, Username: "limiter", Password: "secret"})
	defer client.Close()
	beat, _ := redisbackend.Beats(redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix}))
	_, err := beat(t.Context(), redisbackend.BeatLasts)
	if err == nil {
		t.Fatal("the beat is allowed")
	}
	for _, command := range strings.Fields(aclBeats) {
		if got := redisbackend.WithCommands(err); !errors.Is(got, err) || !strings.Contains(got.Error(), command) {
			t.Errorf("error %v does not name %s", got, command)
		}
	}
	if other := errors.New("dial tcp: refused"); redisbackend.WithCommands(other) != other {
		t.Error("another error names commands")
	}
}
