package redisbackend_test

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/redisbackend"
)

func TestTheListedCommandsSufficeForAnnouncements(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	ok(t, admin.Do(t.Context(), "acl", "setuser", "announcer", "reset", "on", ">secret",
		"resetchannels", "&weir:denials", "-@all",
		"+publish", "+subscribe", "+unsubscribe", "+ping").Err())
	process := func() announcing {
		client := redis.NewClient(&redis.Options{
			Addr: server.addr, Username: "announcer", Password: "secret", ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { client.Close() })
		a := redisbackend.MustNewAnnouncer(client, redisbackend.AnnouncerOptions{Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { a.Close() })
		return withCache(a)
	}
	a, b := process(), process()
	b.hears(t, a, "by a user")
}

// A server that has just been started again may refuse a subscription, as a node of a Cluster
// does for two seconds, or a user whose channels are not set yet.
func TestDenialsAreHeardAgainAfterASubscriptionWasRefused(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	setUser := func(rules ...any) {
		t.Helper()
		ok(t, admin.Do(t.Context(), append([]any{"acl", "setuser", "announcer"}, rules...)...).Err())
	}
	setUser("reset", "on", ">secret", "allkeys", "resetchannels", "&weir:denials", "allcommands")
	client := redis.NewClient(&redis.Options{
		Addr: server.addr, Username: "announcer", Password: "secret", ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	a, b := newAnnouncing(t, newClient(t, server.addr), 0), newAnnouncing(t, client, 0)
	b.hears(t, a, "before")
	setUser("resetchannels") // which ends the connections of those who listen
	until(t, "a subscription is refused", func() bool {
		log, err := admin.Do(t.Context(), "acl", "log").Slice()
		ok(t, err)
		return len(log) > 0
	})
	setUser("&weir:denials")
	b.hears(t, a, "after")
}
