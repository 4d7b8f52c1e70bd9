package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// What docs/redis.md tells people to allow.
const (
	aclDecide  = "+evalsha +eval +time +get +exists +getrange +set +del"
	aclLogs    = "+strlen +setrange +pexpire"
	aclHolds   = "+zadd +zrem +zcard +zcount +zrange +zremrangebyrank +pexpire"
	aclLends   = "+zscore"
	aclBeats   = "+zadd +zrem +zcard +zremrangebyscore +pexpire"
	aclCheck   = "+info"
	aclCluster = "+cluster|slots"
	aclMasters = "+cluster|info"
	aclRing    = "+ping"
)

func TestTheDocumentsListWhatToAllow(t *testing.T) {
	text, err := os.ReadFile("../docs/redis.md")
	ok(t, err)
	for _, list := range []string{
		aclDecide, aclLogs, aclHolds, aclLends, aclBeats, aclCheck, aclCluster, aclMasters, aclRing,
	} {
		if !strings.Contains(string(text), "`"+list+"`") {
			t.Errorf("docs/redis.md has no `%s`", list)
		}
	}
}

// user makes a user of a server who may do what is listed, with keys of a prefix.
func user(t *testing.T, admin *redis.Client, prefix string, lists ...string) {
	t.Helper()
	rules := []string{"reset", "on", ">secret", "~" + prefix + ":*", "-@all"}
	ok(t, admin.ACLSetUser(t.Context(), "limiter", append(rules, strings.Fields(strings.Join(lists, " "))...)...).Err())
}

// decidesEverything has limits of some algorithms decided in every way, on a server
// that has forgotten the scripts, and returns what failed.
func decidesEverything(ctx context.Context, admin *redis.Client, b *redisbackend.Bare, choices []limits.Limit) error {
	var errs []error
	// flushed has a server that does not know the scripts.
	flushed := func(what string, do func() error) {
		if err := admin.ScriptFlush(ctx).Err(); err != nil {
			errs = append(errs, err)
		}
		for range 2 {
			if err := do(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
		}
	}
	var group []backends.Charge
	for i, limit := range choices {
		c := charge(fmt.Sprint("scope ", i), "k", limit, 1)
		group = append(group, c)
		out := make([]limits.Decision, 1)
		changed := c
		changed.Limit = limits.FixedWindow(limits.PerDay(7))
		flushed(fmt.Sprint(limit), func() error {
			for range 2 * limit.Rate().Units { // until it is denied
				if err := b.Take(ctx, []backends.Charge{c}, out); err != nil {
					return err
				}
			}
			if out[0].Allowed {
				return fmt.Errorf("never denied: %+v", out[0])
			}
			return errors.Join(b.Peek(ctx, []backends.Charge{c}, out), b.Take(ctx, []backends.Charge{changed}, out))
		})
		flushed("reset", func() error { return b.Reset(ctx, c.Scope, c.Key) })
		flushed("settle", func() error {
			c.Lasts = time.Second
			var endings []backends.Ending
			for range 3 { // of a log, one is the latest
				if err := b.Take(ctx, []backends.Charge{c}, out); err != nil {
					return err
				}
				endings = append(endings, endingOf(c, out[0], 0))
			}
			endings[1].Final = 3
			results := make([]limits.Settlement, len(endings))
			err := b.Settle(ctx, endings, results)
			for _, s := range results {
				err = errors.Join(err, s.Err)
			}
			return errors.Join(err, b.Reset(ctx, c.Scope, c.Key))
		})
		flushed("give back", func() error {
			_, giveBack, err := redisbackend.TakeToGiveBack(ctx, b, c)
			if err == nil {
				_, err = giveBack()
			}
			return err
		})
	}
	flushed("group", func() error { return b.Take(ctx, group, make([]limits.Decision, len(group))) })
	return errors.Join(errs...)
}

// holdsEverything has units held, renewed and released in every way.
func holdsEverything(ctx context.Context, admin *redis.Client, b *redisbackend.Bare) error {
	c := charge("held", "k", limits.Concurrent(3), 1)
	name := redisbackend.HeldName(b, c.Scope, c.Key)
	out := make([]limits.Decision, 1)
	var endings []backends.Ending
	for range 4 { // until it is denied
		if err := b.Take(ctx, []backends.Charge{c}, out); err != nil {
			return err
		}
		endings = append(endings, ending(c, out[0]))
	}
	if out[0].Allowed {
		return fmt.Errorf("never denied: %+v", out[0])
	}
	if err := admin.ZAdd(ctx, name, redis.Z{Score: 1, Member: "has ended"}).Err(); err != nil {
		return err
	}
	settled := make([]limits.Settlement, len(endings))
	if err := b.Settle(ctx, endings[1:], settled[1:]); err != nil {
		return err
	}
	if err := b.Take(ctx, []backends.Charge{c}, out); err != nil {
		return err
	}
	redisbackend.RenewAll(b)
	if n := admin.ZCard(ctx, name).Val(); n != 2 {
		return fmt.Errorf("%d units are in the set, want 2", n)
	}
	if err := b.Settle(ctx, append(endings[:1], ending(c, out[0])), settled[:2]); err != nil {
		return err
	}
	if n := admin.Exists(ctx, name).Val(); n != 0 {
		return errors.New("units are not released")
	}
	return nil
}

// lendsEverything has units lent and taken back, with a holder and without one.
func lendsEverything(ctx context.Context, admin *redis.Client, b *redisbackend.Bare) error {
	for holder := range uint64(2) {
		if err := admin.ScriptFlush(ctx).Err(); err != nil {
			return err
		}
		c := charge("lent", "k", limits.Concurrent(3), 1)
		c.Value, c.Lends = holder<<40, time.Minute
		out, settled := make([]limits.Decision, 1), make([]limits.Settlement, 1)
		for range 3 {
			if err := b.Take(ctx, []backends.Charge{c}, out); err != nil {
				return err
			}
		}
		e := endingOf(c, out[0], 0)
		e.Value, e.Lends, e.Taken = c.Value, c.Lends, 4
		if err := b.Settle(ctx, []backends.Ending{e}, settled); err != nil {
			return err
		}
		if settled[0].Err != nil || settled[0].Returned != 3 {
			return fmt.Errorf("%+v, want 3 units", settled[0])
		}
	}
	return nil
}

// beatsOnce has b counted, and then no more.
func beatsOnce(ctx context.Context, admin *redis.Client, b *redisbackend.Bare) error {
	if err := admin.ScriptFlush(ctx).Err(); err != nil {
		return err
	}
	beat, _ := redisbackend.Beats(b)
	_, err := beat(ctx, redisbackend.BeatLasts)
	_, ended := beat(ctx, 0)
	return errors.Join(err, ended)
}

func TestTheListedCommandsSufficeAndNoneIsTooMany(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	client := redis.NewClient(&redis.Options{
		Addr: server.addr, Username: "limiter", Password: "secret", ContextTimeoutEnabled: true,
	})
	defer client.Close()
	prefix := uniquePrefix()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
	others := []limits.Limit{
		limits.TokenBucket(limits.PerHour(3), 4), limits.TokenBucket(limits.PerHour(7), 4),
		limits.LeakyBucket(limits.PerHour(3), 4),
		limits.LeakyQueue(limits.PerHour(3), 4), limits.FixedWindow(limits.PerDay(5)), limits.SlidingWindow(limits.PerDay(5)),
		limits.AnchoredWindow(limits.PerDay(5)), limits.Ban(limits.PerDay(5), time.Hour),
	}
	logs := []limits.Limit{limits.SlidingLog(limits.PerHour(5)), limits.SlidingLog(limits.PerDay(50))}

	for what, c := range map[string]struct {
		list, and string
		try       func() error
	}{
		"all but logs": {aclDecide, "", func() error { return decidesEverything(t.Context(), admin, b, others) }},
		"logs":         {aclLogs, aclDecide, func() error { return decidesEverything(t.Context(), admin, b, logs) }},
		"holds":        {aclHolds, aclDecide, func() error { return holdsEverything(t.Context(), admin, b) }},
		"lends": {aclLends, aclDecide + " " + aclHolds, func() error {
			return lendsEverything(t.Context(), admin, b)
		}},
		"beats": {aclBeats, aclDecide, func() error { return beatsOnce(t.Context(), admin, b) }},
		"Check": {aclCheck, aclDecide, func() error { return b.Check(t.Context()) }},
	} {
		ok(t, admin.FlushAll(t.Context()).Err())
		user(t, admin, prefix, c.list, c.and)
		if err := c.try(); err != nil {
			t.Errorf("%s, with %s %s: %v", what, c.and, c.list, err)
		}
		for _, command := range strings.Fields(c.list) {
			ok(t, admin.FlushAll(t.Context()).Err())
			user(t, admin, prefix, c.and, strings.ReplaceAll(c.list+" ", command+" ", ""))
			if err := c.try(); err == nil {
				t.Errorf("%s: nothing fails without %s", what, command)
			}
		}
	}
}

func TestCheckNamesWhatTheUserMayNotDo(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	client := redis.NewClient(&redis.Options{Addr: server.addr, Username: "limiter", Password: "secret"})
	defer client.Close()
	prefix := uniquePrefix()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
	for without, want := range map[string]string{
		"+info": "+info", "+set": "+set", "+time": "+time", "+get": "+get", "+exists": "+exists",
		"+getrange": "+getrange", "+del": "+del",
		"+evalsha": "+evalsha",
	} {
		user(t, admin, prefix, strings.ReplaceAll(aclDecide+" "+aclCheck+" ", without+" ", " "))
		if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "allow the user "+want) {
			t.Errorf("without %s: error %v, want one that says to allow it", without, err)
		}
	}
	user(t, admin, prefix, "+evalsha +eval")
	if err := b.Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "allow the user +time +set +get +exists +getrange +del +info") {
		t.Errorf("without any: error %v, want one that says to allow all", err)
	}
	ok(t, admin.ScriptFlush(t.Context()).Err())
	user(t, admin, prefix, "+evalsha")
	if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "allow the user +eval") {
		t.Errorf("without +eval: error %v, want one that says to allow it", err)
	}
	user(t, admin, "other", aclDecide, aclCheck)
	if err := b.Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "allow the user its keys, ~"+prefix+":*") {
		t.Errorf("without its keys: error %v, want one that says to allow them", err)
	}
	user(t, admin, prefix, aclDecide, aclCheck)
	ok(t, b.Check(t.Context()))
}

// What other versions say in place of what the server of these tests does.
func TestCheckUnderstandsEveryServersRefusal(t *testing.T) {
	for text, want := range map[string]string{
		"ERR The user executing the script can't run this command or subcommand; commands: info": "+info",
		"ERR ACL failure in script: User o'brien has no permissions to run the " +
			"'time' command; commands: time info": "+time +info",
		"NOPERM User o'brien has no permissions to run the 'evalsha' command":             "+evalsha",
		"NOPERM this user has no permissions to run the 'cluster|info' command":           "+cluster|info",
		"NOPERM this user has no permissions to access one of the keys used as arguments": "its keys, ~weir:*",
		"NOPERM No permissions to access a key":                                           "its keys, ~weir:*",
		"ERR ACL failure in script: User o'brien has no permissions to access the " +
			"'weir:check' key; commands: set": "its keys, ~weir:*",
		"ERR The user executing the script can't access at least one of the keys " +
			"mentioned in the command arguments; commands: set get": "its keys, ~weir:*",
	} {
		err := errors.New(text)
		if got := redisbackend.Explain(err, "weir:check"); !errors.Is(got, err) ||
			!strings.Contains(got.Error(), text+": allow the user "+want) {
			t.Errorf("got %v, want one that says to allow %s", got, want)
		}
	}
	full := errors.New("OOM command not allowed when used memory > 'maxmemory'.; commands: set")
	if got := redisbackend.Explain(full, "weir:check"); !errors.Is(got, full) ||
		!strings.Contains(got.Error(), "raise maxmemory") {
		t.Errorf("got %v, want one that says to raise maxmemory", got)
	}
	for _, text := range []string{"READONLY You can't write against a read only replica.", "dial tcp: refused"} {
		err := errors.New(text)
		if got := redisbackend.Explain(err, "weir:check"); got != err {
			t.Errorf("got %v, want it as it is", got)
		}
	}
}

// worksUnderAnACL fails unless the documented commands, and no less, suffice for a
// client of a Cluster.
func worksUnderAnACL(t *testing.T, c *cluster) {
	prefix := uniquePrefix()
	var addrs []string
	for _, node := range c.nodes() {
		addrs = append(addrs, node.addr)
	}
	// works tries with a new client, which has to find the masters first.
	works := func(lists ...string) error {
		for _, node := range c.nodes() {
			user(t, node.Client, prefix, lists...)
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Username: "limiter", Password: "secret", MaxRedirects: -1, DisableRoutingPolicies: true,
		})
		defer client.Close()
		b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
		for i := range 20 {
			charges := []backends.Charge{charge("a", fmt.Sprint(i), ten, 1), charge("b", fmt.Sprint(i), ten, 2+int64(i%3)*8)}
			if err := b.Take(t.Context(), charges, make([]limits.Decision, 2)); err != nil {
				return fmt.Errorf("take: %w", err)
			}
		}
		redisbackend.WaitForGiveBacks(b)
		return b.Check(t.Context())
	}
	if err := works(aclDecide, aclCluster, aclCheck, aclMasters); err != nil {
		t.Errorf("with all that is listed: %v", err)
	}
	if err := works(aclDecide, aclCheck, aclMasters); err == nil || !strings.Contains(err.Error(), "take: ") {
		t.Errorf("without %s: %v, want an error of taking", aclCluster, err)
	}
	if err := works(aclDecide, aclCluster, aclCheck); err == nil ||
		!strings.Contains(err.Error(), "allow the user "+aclMasters) {
		t.Errorf("without %s: %v, want an error of Check that says to allow it", aclMasters, err)
	}
}

func TestARingNeedsPing(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	prefix := uniquePrefix()
	works := func(lists ...string) error {
		user(t, admin, prefix, lists...)
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"one": server.addr}, Username: "limiter", Password: "secret",
			HeartbeatFrequency: 5 * time.Millisecond,
		})
		defer ring.Close()
		b := redisbackend.MustNewBare(ring, redisbackend.BareOptions{Prefix: prefix})
		if err := b.Check(t.Context()); err != nil {
			return err
		}
		ok(t, admin.ConfigResetStat(t.Context()).Err())
		until(t, "ten heartbeats have come, or none will be let in", func() bool {
			_, pings, _ := strings.Cut(admin.Info(t.Context(), "commandstats").Val(), "cmdstat_ping:calls=")
			n, _, _ := strings.Cut(pings, ",")
			return len(n) > 1 || ring.Len() == 0
		})
		return b.Check(t.Context())
	}
	if err := works(aclDecide, aclCheck, aclRing); err != nil {
		t.Errorf("with all that is listed: %v", err)
	}
	if err := works(aclDecide, aclCheck); err == nil {
		t.Error("nothing fails without " + aclRing)
	}
}
