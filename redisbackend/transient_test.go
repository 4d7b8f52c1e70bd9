package redisbackend_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// ten is of units that do not come back while a test runs.
var ten = limits.TokenBucket(limits.Per(10, 100*24*time.Hour), 10)

// A group takes ten units here and is denied there, so that it gives them back.
// Somebody is denied in between, and must not be once they are back.
func forgetsTransientDenials(t *testing.T, client redis.Scripter) {
	prefix := redisbackend.BareOptions{Prefix: uniquePrefix()}
	attacker, b := redisbackend.MustNewBare(client, prefix), redisbackend.MustNewBare(client, prefix)
	cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
	// spread returns charges of a key by the scopes "all" and "user", which no step decides together.
	spread := func(key string, cost, more int64) []backends.Charge {
		for i := 0; ; i++ {
			charges := []backends.Charge{charge("all", key, ten, cost), charge("user", fmt.Sprint(key, i), ten, more)}
			if redisbackend.Apart(b, charges...) {
				return charges
			}
		}
	}
	take(t, b, spread("elsewhere", 1, 1)...) // as every request of this limiter

	for name, victim := range map[string][]backends.Charge{
		"in a group": spread("in a group", 1, 1),
		"alone":      {charge("all", "alone", ten, 1)},
	} {
		hot := victim[0]
		hot.Cost = 10
		d, giveBack, err := redisbackend.TakeToGiveBack(t.Context(), attacker, hot)
		if err != nil || !d.Allowed {
			t.Fatalf("%s: the attacker took nothing: %+v, %v", name, d, err)
		}
		if d := take(t, cache, victim...)[0]; d.Allowed || !d.Transient || d.Source != limits.SourcePrimary {
			t.Errorf("%s: got %+v, want a transient denial", name, d)
		}
		if gave, err := giveBack(); !gave || err != nil {
			t.Fatalf("%s: nothing was given back: %v", name, err)
		}
		if d := take(t, cache, victim...)[0]; !d.Allowed {
			t.Errorf("%s: denied by %v for %v, though the units are back", name, d.Source, d.RetryAfter)
		}
	}

	// A first request is one of a group too.
	fresh := redisbackend.MustNewBare(client, prefix)
	if d := take(t, fresh, spread("first", 10, 11)...); d[0].Transient || d[1].Allowed || d[1].Transient {
		t.Errorf("allowed %+v, never %+v: want neither transient", d[0], d[1])
	}
	redisbackend.WaitForGiveBacks(fresh)
	for want := range 2 { // allowed, then denied
		d := take(t, fresh, spread("second", 10, 1)...)
		if d[0].Transient != (want == 1) || d[1].Transient {
			t.Errorf("the first groups of a process: %+v", d)
		}
	}
	redisbackend.WaitForGiveBacks(fresh)
}

// What is never given back may be remembered, and is.
func remembersOtherDenials(t *testing.T, b *redisbackend.Bare, group bool) {
	cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
	charges := []backends.Charge{charge("lone", "k", ten, 10)}
	if group {
		charges = append(charges, charge("another", "k", ten, 1))
	}
	take(t, cache, charges...)
	if d := take(t, cache, charges...)[0]; d.Allowed || d.Transient {
		t.Errorf("got %+v, want a denial that lasts", d)
	}
	if d := take(t, cache, charges...)[0]; d.Source != limits.SourceDenialCache {
		t.Errorf("got %+v, want it from the cache", d)
	}
}

func TestDenialsThatMayRestOnAGiveBackAreTransient(t *testing.T) {
	t.Parallel()
	ring := startRing(t)
	t.Run("on a Ring", func(t *testing.T) { forgetsTransientDenials(t, ring) })
	t.Run("not of scopes charged alone", func(t *testing.T) {
		b := newBare(ring)
		take(t, b, charge("all", "k", ten, 1), charge("user", "k", ten, 1))
		remembersOtherDenials(t, b, false)
	})
	t.Run("not of the last rule of each request", func(t *testing.T) {
		b := newBare(ring)
		for i := range 20 { // also of keys that lie together
			take(t, b, charge("all", fmt.Sprint(i), ten, 1), charge("user", "k", ten, 0))
		}
		last := charge("user", "k", ten, 10)
		take(t, b, last)
		if d := take(t, b, charge("all", "k", ten, 1), last)[1]; d.Allowed || d.Transient {
			t.Errorf("got %+v, want a denial that lasts", d)
		}
	})
	t.Run("not with a hash tag", func(t *testing.T) {
		remembersOtherDenials(
			t, redisbackend.MustNewBare(ring, redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: "t"}), true,
		)
	})
	t.Run("not on one server", func(t *testing.T) {
		client := newClient(t, startRedis(t).addr)
		remembersOtherDenials(t, redisbackend.MustNewBare(client, redisbackend.BareOptions{}), true)
	})
	t.Run("of every scope where there are too many", func(t *testing.T) {
		b := newBare(ring)
		full := charge("full", "k", ten, 10)
		take(t, b, full)
		for i := range 2000 { // two of three are spread
			take(t, b, charge(fmt.Sprint("one ", i), "k", ten, 1), charge(fmt.Sprint("other ", i), "k", ten, 1))
		}
		if d := take(t, b, full)[0]; d.Allowed || !d.Transient {
			t.Errorf("after too many scopes: %+v, want a transient denial", d)
		}
		if n := redisbackend.Spread(b); n > 1025 {
			t.Errorf("%d scopes are kept", n)
		}
	})
}

// holding is a hook that holds commands up before they are sent, while told to.
type holding struct{ gate atomic.Pointer[chan struct{}] }

func (h *holding) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *holding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *holding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if gate := h.gate.Load(); gate != nil && strings.HasPrefix(cmd.Name(), "eval") {
			<-*gate
		}
		return next(ctx, cmd)
	}
}

// A group has taken at one server and waits for the other, which denies: all of it
// through the front door, with the first group that a backend is given.
func TestADenialBehindAGroupThatIsStillDecidedIsTransient(t *testing.T) {
	t.Parallel()
	quick, slow := startRedis(t), startRedis(t)
	hold := new(holding)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"quick": quick.addr, "slow": slow.addr},
		NewClient: func(options *redis.Options) *redis.Client {
			client := redis.NewClient(options)
			if options.Addr == slow.addr {
				client.AddHook(hold)
			}
			return client
		},
	})
	defer ring.Close()
	b := redisbackend.MustNewBare(ring, redisbackend.BareOptions{})
	cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
	// at returns a charge that a server keeps.
	at := func(server *redisServer, scope string, cost int64) backends.Charge {
		for i := 0; ; i++ {
			c := charge(scope, fmt.Sprint(i), ten, cost)
			if shard, err := ring.GetShardClientForKey(redisbackend.Name(b, scope, c.Key)); err != nil {
				t.Fatal(err)
			} else if shard.Options().Addr == server.addr {
				return c
			}
		}
	}
	victim := at(quick, "all", 1)
	attack := []backends.Charge{at(quick, "all", 10), at(slow, "user", 11)}

	gate := make(chan struct{})
	hold.gate.Store(&gate)
	decided := make(chan limits.Decision)
	go func() {
		out := make([]limits.Decision, 2)
		if err := b.Take(t.Context(), attack, out); err != nil {
			t.Error(err)
		}
		decided <- out[1]
	}()
	admin := newClient(t, quick.addr)
	until(t, "the quick server has taken", func() bool {
		return admin.Exists(t.Context(), redisbackend.Name(b, "all", victim.Key)).Val() == 1
	})
	if d := take(t, cache, victim)[0]; d.Allowed || !d.Transient {
		t.Errorf("while the group is decided: %+v, want a transient denial", d)
	}
	hold.gate.Store(nil)
	close(gate)
	if d := <-decided; d.Allowed || d.Transient {
		t.Errorf("the group: %+v, want a denial for ever", d)
	}
	redisbackend.WaitForGiveBacks(b)
	if d := take(t, cache, victim)[0]; !d.Allowed {
		t.Errorf("once the units are back: %+v", d)
	}
}
