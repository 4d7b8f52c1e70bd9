package redisbackend_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
)

// A ClusterClient repeats what it has no reply to, three times unless set, though
// MaxRetries is -1.
func TestATakingOnAClusterWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	client, lose := clusterThatLoses(t)
	b := redisbackend.New(client, redisbackend.Options{})
	c := charge("s", "k", core.LeakyBucket(core.PerDay(1), 20), 3)
	take(t, b, c)
	lose.Store(true)
	if err := b.Take(t.Context(), []core.Charge{c}, make([]core.Decision, 1)); err == nil || lose.Load() {
		t.Errorf("the reply was lost: %v", err)
	}
	c.Cost = 0
	if left := take(t, b, c)[0].Remaining; left != 14 {
		t.Errorf("%d of 20 remain, want 14: taken twice", left)
	}
}

func TestAPipelineToAClusterIsNotRepeated(t *testing.T) {
	ctx := t.Context()
	client, lose := clusterThatLoses(t)
	source := "if KEYS[1] == 'busy' then return redis.error_reply('TRYAGAIN later') end return redis.call('INCR', KEYS[1])"
	digest := client.ScriptLoad(ctx, source).Val()
	for name, first := range map[string]string{"the reply is lost": "first", "the first command fails": "busy"} {
		ok(t, client.Del(ctx, "first", "second").Err())
		lose.Store(first == "first")
		pipe := redisbackend.UnrepeatedPipeline(client)
		pipe.EvalSha(ctx, digest, []string{first})
		pipe.EvalSha(ctx, digest, []string{"second"})
		if _, err := pipe.Exec(ctx); err == nil || lose.Load() {
			t.Errorf("%s: %v", name, err)
		}
		if n := client.Get(ctx, "second").Val(); n != "1" {
			t.Errorf("%s: the second command has run %s times", name, n)
		}
	}
}

// A pipeline that embeds a redis.Pipeliner has 600 methods, of which every program
// with this package contained two forms each if it calls methods by reflection.
func TestAPipelineToAClusterHasFewMethods(t *testing.T) {
	client, _ := clusterThatLoses(t)
	if n := reflect.TypeOf(redisbackend.UnrepeatedPipeline(client)).NumMethod(); n > 4 {
		t.Errorf("it has %d methods, and a linker may have to keep them all", n)
	}
}

// clusterThatLoses is a client of a Cluster that has one server, and loses replies
// to scripts when told to.
func clusterThatLoses(t *testing.T) (*redis.ClusterClient, *atomic.Bool) {
	lose, addr := new(atomic.Bool), startRedis(t).addr
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: loser(lose),
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	return client, lose
}
