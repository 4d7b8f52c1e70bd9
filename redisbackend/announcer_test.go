package redisbackend_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// announcing is a process that counts in memory and announces its denials.
type announcing struct {
	*redisbackend.Announcer
	cache *remote.DenialCache
}

func newAnnouncing(t testing.TB, client redis.UniversalClient, perSecond int) announcing {
	t.Helper()
	a := redisbackend.MustNewAnnouncer(
		client, redisbackend.AnnouncerOptions{PerSecond: perSecond, Logger: slog.New(slog.DiscardHandler)},
	)
	t.Cleanup(func() { a.Close() })
	return withCache(a)
}

// withCache puts a denial cache around a memory, which announces by a.
func withCache(a *redisbackend.Announcer) announcing {
	inner := memory.MustNew(memory.Options{})
	return announcing{a, remote.MustNewDenialCache(inner, remote.DenialCacheOptions{Announcer: a})}
}

var banned = limits.Ban(limits.PerMinute(1), time.Hour)

func (a announcing) decide(t testing.TB, key string) limits.Decision {
	t.Helper()
	var out [1]limits.Decision
	ok(t, a.cache.Take(context.Background(), []backends.Charge{{Scope: "s", Key: key, Limit: banned, Cost: 1}}, out[:]))
	return out[0]
}

// hears waits until a denies what from has banned.
func (a announcing) hears(t testing.TB, from announcing, test string) {
	t.Helper()
	var keys []string // that from has banned
	polls := 0
	until(t, "what one instance bans is denied by the other", func() bool {
		for _, key := range keys {
			if d := a.decide(t, key); !d.Allowed {
				if d.Source != limits.SourceDenialCache || d.RetryAfter > time.Hour || d.RetryAfter < 50*time.Minute {
					t.Fatalf("%+v", d)
				}
				return true
			}
			ok(t, a.cache.Reset(context.Background(), "s", key))
		}
		if polls++; polls%2 == 1 { // a may not have listened before
			key := fmt.Sprint(test, polls)
			from.decide(t, key)
			if d := from.decide(t, key); d.Allowed {
				t.Fatalf("not banned: %+v", d)
			}
			keys = append(keys, key)
		}
		return false
	})
}

func TestDenialsReachOtherInstances(t *testing.T) {
	for name, clients := range map[string]func(t *testing.T) (a, b redis.UniversalClient){
		"one server": func(t *testing.T) (a, b redis.UniversalClient) {
			addr := startRedis(t).addr
			return newClient(t, addr), newClient(t, addr)
		},
		"cluster": func(t *testing.T) (a, b redis.UniversalClient) {
			c := startCluster(t)
			return c.client(t), c.client(t)
		},
		"ring": func(t *testing.T) (a, b redis.UniversalClient) {
			ring := startRing(t)
			return ring, ring
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := clients(t)
			a, b := newAnnouncing(t, one, 0), newAnnouncing(t, two, 0)
			b.hears(t, a, "a to b")
			a.hears(t, b, "b to a")
			if c := a.Counts(); c.Sent == 0 || c.Received == 0 || c.Refused != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestDenialsAreHeardAgainWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	a, b := newAnnouncing(t, newClient(t, server.addr), 0), newAnnouncing(t, newClient(t, server.addr), 0)
	b.hears(t, a, "before")
	server.kill()
	_, port, err := net.SplitHostPort(server.addr)
	ok(t, err)
	startServer(t, server.addr, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	b.hears(t, a, "after")
}

func TestDenialsAreHeardAgainWhenTheirSlotHasMoved(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "a Cluster that changes")
	c := startCluster(t)
	a, b := newAnnouncing(t, c.client(t), 0), newAnnouncing(t, c.client(t), 0)
	b.hears(t, a, "before")
	slot := int(c.masters[0].ClusterKeySlot(t.Context(), "weir:denials").Val())
	owner, another := c.ownerAndAnother(t, slot)
	ok(t, c.move(t.Context(), slot, owner, another, func() {}))
	b.hears(t, a, "after")
}

// While a shard of a Ring is down another has its channels.
func TestDenialsAreHeardOnTheShardThatHasTheChannel(t *testing.T) {
	t.Parallel()
	servers, addrs := make(map[string]*redisServer), make(map[string]string)
	for _, name := range []string{"one", "two"} {
		servers[name] = startRedis(t)
		addrs[name] = servers[name].addr
	}
	newRing := func() *redis.Ring {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: addrs, HeartbeatFrequency: 10 * time.Millisecond, ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { ring.Close() })
		return ring
	}
	one, two := newRing(), newRing()
	a, b := newAnnouncing(t, one, 0), newAnnouncing(t, two, 0)
	b.hears(t, a, "before")
	shard, err := one.GetShardClientForKey("weir:denials")
	ok(t, err)
	addr := shard.Options().Addr
	for _, server := range servers {
		if server.addr == addr {
			server.kill()
		}
	}
	shards := func(n int) {
		t.Helper()
		until(t, fmt.Sprintf("both see %d shards", n), func() bool { return one.Len() == n && two.Len() == n })
	}
	shards(1)
	b.hears(t, a, "elsewhere")
	_, port, err := net.SplitHostPort(addr)
	ok(t, err)
	startServer(t, addr, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	shards(2)
	b.hears(t, a, "after")
}

// Before Redis 7 there are no sharded channels.
func TestDenialsAreHeardOnAClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel()
	var args []string
	if !beforeRedis7(t) {
		args = []string{"--rename-command", "SSUBSCRIBE", "", "--rename-command", "SPUBLISH", ""}
	}
	addr := startRedis(t, args...).addr
	newCluster := func() *redis.ClusterClient {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ContextTimeoutEnabled: true,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
		})
		t.Cleanup(func() { client.Close() })
		return client
	}
	a, b := newAnnouncing(t, newCluster(), 0), newAnnouncing(t, newCluster(), 0)
	b.hears(t, a, "on a plain channel")
}

func TestAFloodOfDenialsIsAnnouncedAtItsPace(t *testing.T) {
	t.Parallel()
	const perSecond, flood = 50, 20_000
	a := newAnnouncing(t, newClient(t, startRedis(t).addr), perSecond)
	began := time.Now()
	for i := range flood {
		key := fmt.Sprint(i)
		a.decide(t, key)
		a.decide(t, key)
	}
	until(t, "all are sent or dropped", func() bool { c := a.Counts(); return c.Sent+c.Dropped >= flood })
	seconds := int64(time.Since(began)/time.Second) + 1
	if c := a.Counts(); c.Sent == 0 || c.Sent > perSecond*seconds {
		t.Errorf("%d were sent in %d seconds, want at most %d a second", c.Sent, seconds, perSecond)
	}
}

// A server that accepts and never answers: nobody waits for it.
func TestAnnouncementsDoNotWaitForASilentServer(t *testing.T) {
	testrun.FullOnly(t, "a server that falls silent")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { l.Close() })
	a := newAnnouncing(t, newClient(t, l.Addr().String()), 0)
	for i := range 1_000 {
		key := fmt.Sprint(i)
		a.decide(t, key)
		a.decide(t, key)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		a.Close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close has not returned in a minute")
	}
	a.Announce(backends.Announcement{Scope: "s", Key: "late", Limit: banned})
	if c := a.Counts(); c.Sent != 0 || c.Dropped < 1_001 {
		t.Errorf("%+v", c)
	}
}

func TestOtherMessagesOfTheChannelAreRefused(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	client := newClient(t, addr)
	a, b := newAnnouncing(t, client, 0), newAnnouncing(t, client, 0)
	b.hears(t, a, "before")
	for _, message := range []string{
		"", "hello", "\x02" + strings.Repeat("x", 100), "\x01" + strings.Repeat("\xff", 1<<20),
	} {
		ok(t, client.Publish(t.Context(), "weir:denials", message).Err())
	}
	until(t, "all are refused", func() bool { return b.Counts().Refused == 4 })
	b.hears(t, a, "after")
}

func TestAKeyOfAnyLengthIsNotAnnounced(t *testing.T) {
	a := newAnnouncing(t, newClient(t, freeAddr(t)), 0)
	key := strings.Repeat("k", 5_000)
	a.decide(t, key)
	a.decide(t, key)
	if c := a.Counts(); c.Dropped != 1 {
		t.Errorf("%+v", c)
	}
}

func TestAnAnnouncerOpensAURLAndClosesItsClient(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	open := func() announcing {
		a, err := redisbackend.OpenAnnouncer(
			"redis://"+addr, redisbackend.AnnouncerOptions{Logger: slog.New(slog.DiscardHandler)},
		)
		ok(t, err)
		return withCache(a)
	}
	a, b := open(), open()
	b.hears(t, a, "opened")
	ok(t, a.Close())
	ok(t, b.Close())
	watch := newClient(t, addr)
	until(t, "their connections are closed", func() bool {
		list, err := watch.ClientList(t.Context()).Result()
		ok(t, err)
		return strings.Count(strings.TrimSpace(list), "\n") == 0 // only that of watch
	})
	for want, f := range map[string]func() (*redisbackend.Announcer, error){
		"url: is not like": func() (*redisbackend.Announcer, error) {
			return redisbackend.OpenAnnouncer("localhost", redisbackend.AnnouncerOptions{})
		},
		"per second: must be positive": func() (*redisbackend.Announcer, error) {
			return redisbackend.OpenAnnouncer("redis://"+addr, redisbackend.AnnouncerOptions{PerSecond: -1})
		},
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
