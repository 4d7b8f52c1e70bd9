package redisbackend_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A ClusterClient repeats what it has no reply to, three times unless set, though
// MaxRetries is -1.
func TestATakingOnAClusterWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	client, lose := clusterThatLoses(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	c := charge("s", "k", limits.LeakyBucket(limits.PerDay(1), 20), 3)
	take(t, b, c)
	lose.Store(true)
	if err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1)); err == nil || lose.Load() {
		t.Errorf("the reply was lost: %v", err)
	}
	c.Cost = 0
	if left := take(t, b, c)[0].Remaining; left != 14 {
		t.Errorf("%d of 20 remain, want 14: taken twice", left)
	}
}

func TestAPipelineToAClusterIsNotRepeated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, lose := clusterThatLoses(t)
	source := "if KEYS[1] == 'busy' then return redis.error_reply('TRYAGAIN later') end " +
		"return { ARGV[1] + 0, redis.call('INCR', KEYS[1]) }"
	ok(t, client.ScriptLoad(ctx, source).Err())
	for name, first := range map[string]string{"the reply is lost": "first", "the first command fails": "busy"} {
		ok(t, client.Del(ctx, "first", "second").Err())
		lose.Store(first == "first")
		if err := redisbackend.RunOnce(ctx, client, source, true, []string{first}, []string{"second"}); err == nil ||
			lose.Load() {
			t.Errorf("%s: %v", name, err)
		}
		if n := client.Get(ctx, "second").Val(); n != "1" {
			t.Errorf("%s: the second command has run %s times", name, n)
		}
	}
}

// While a slot is half moved no call for several of its keys is decided. Requests of
// one key are: nobody waits for the client to try such a call again. The client leaves it to the backend.
func TestTheClientSendsACallForAHalfMovedSlotOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, _ := clusterThatLoses(t)
	source := "redis.call('INCR', KEYS[1]) " +
		"return redis.error_reply('TRYAGAIN Multiple keys request during rehashing of slot')"
	for name, known := range map[string]bool{"by digest": true, "by source": false} {
		for _, parts := range []bool{true, false} {
			ok(t, client.ScriptFlush(ctx).Err())
			if known {
				ok(t, client.ScriptLoad(ctx, source).Err())
			}
			key := fmt.Sprint(name, parts)
			err := redisbackend.RunOnce(ctx, client, source, parts, []string{key, key})
			if !redis.HasErrorPrefix(err, "TRYAGAIN") {
				t.Errorf("%s: %v", key, err)
			}
			if n := client.Get(ctx, key).Val(); n != "1" {
				t.Errorf("%s: sent %s times, want once", key, n)
			}
			a, b := key+"{a}", key+"{b}"
			err = redisbackend.RunOnce(ctx, client, source, parts, []string{a, a}, []string{b, b})
			if !redis.HasErrorPrefix(err, "TRYAGAIN") {
				t.Errorf("%s, in a pipeline: %v", key, err)
			}
			if n := client.Get(ctx, b).Val(); n != "1" {
				t.Errorf("%s, in a pipeline: sent %s times, want 1", key, n)
			}
		}
	}
}

// clusterThatLoses is a client of a Cluster that has one server, and loses replies
// to scripts when told to.
func clusterThatLoses(t *testing.T) (*redis.ClusterClient, *atomic.Bool) {
	lose, addr := new(atomic.Bool), startRedis(t).addr
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: loser(lose), ReadTimeout: -1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	return client, lose
}

// A Ring repeats what it has no reply to, three times unless set.
func TestATakingOnARingWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	lose := new(atomic.Bool)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": startRedis(t).addr, "b": startRedis(t).addr}, ContextTimeoutEnabled: true,
		Dialer: loser(lose), ReadTimeout: -1,
	})
	defer ring.Close()
	b := redisbackend.MustNewBare(ring, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	limit := limits.LeakyBucket(limits.PerDay(1), 20)
	var group []backends.Charge
	shards := make(map[*redis.Client]bool)
	for i := 0; len(shards) < 2; i++ {
		c := charge("s", fmt.Sprint(i), limit, 3)
		shard, err := ring.GetShardClientForKey(redisbackend.Name(b, c.Scope, c.Key))
		ok(t, err)
		if !shards[shard] {
			shards[shard] = true
			group = append(group, c)
		}
	}
	for name, charges := range map[string][]backends.Charge{"a key": group[:1], "a group": group} {
		take(t, b, charges...)
		before := make(map[string]int64)
		for _, c := range charges {
			c.Cost = 0
			before[c.Key] = take(t, b, c)[0].Remaining
		}
		lose.Store(true)
		if err := b.Take(t.Context(), charges, make([]limits.Decision, len(charges))); err == nil || lose.Load() {
			t.Errorf("%s: the reply was lost: %v", name, err)
		}
		redisbackend.WaitForGiveBacks(b)
		for _, c := range charges {
			c.Cost = 0
			if took := before[c.Key] - take(t, b, c)[0].Remaining; took > 3 {
				t.Errorf("%s: %d units were taken, want 3 at most", name, took)
			}
		}
	}
}
