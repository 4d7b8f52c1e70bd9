package redisbackend_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// callsOf returns how often a server was sent a command, by its own count: "eval", or "script load",
// which Redis 6 counts as "script". refused ones are those that it counts as rejected or failed.
func callsOf(t testing.TB, client redis.UniversalClient, command string) (calls, refused int) {
	t.Helper()
	names := []string{"cmdstat_" + strings.ReplaceAll(command, " ", "|") + ":"}
	if name, _, more := strings.Cut(command, " "); more {
		names = append(names, "cmdstat_"+name+":")
	}
	for l := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
		for _, name := range names {
			if text, ok := strings.CutPrefix(l, name); ok {
				for field := range strings.SplitSeq(strings.TrimSpace(text), ",") {
					key, value, _ := strings.Cut(field, "=")
					var n int
					fmt.Sscan(value, &n)
					switch key {
					case "calls":
						calls += n
					case "rejected_calls", "failed_calls":
						refused += n
					}
				}
			}
		}
	}
	return calls, refused
}

// flushScripts makes a server forget all scripts, as it does when others send many.
func flushScripts(t testing.TB, client *redis.Client) {
	t.Helper()
	ok(t, client.Do(t.Context(), "eval", "return 1", 0).Err())
	ok(t, client.ScriptFlush(t.Context()).Err())
	ok(t, client.ConfigResetStat(t.Context()).Err())
}

// Each topology asks a server for itself.
func TestAServerThatForgetsAScriptGetsItToStay(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	node := startSoleNode(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.addr}})
	defer ring.Close()
	inCluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.addr}})
	defer inCluster.Close()
	for name, c := range map[string]struct {
		client redis.UniversalClient
		admin  *redis.Client
	}{
		"one server": {newClient(t, server.addr), newClient(t, server.addr)},
		"a Ring":     {ring, newClient(t, server.addr)},
		"a Cluster":  {inCluster, node.Client},
	} {
		b := newBare(c.client)
		limit := charge("s", name, limits.FixedWindow(limits.PerDay(1000)), 1)
		flushScripts(t, c.admin)
		take(t, b, limit)
		if evals, _ := callsOf(t, c.admin, "eval"); evals != 1 {
			t.Errorf("%s: the first decision sends EVAL %d times, want once", name, evals)
		}
		if loads, _ := callsOf(t, c.admin, "script load"); loads != 0 {
			t.Errorf("%s: the first decision sends SCRIPT LOAD %d times", name, loads)
		}
		flushScripts(t, c.admin)
		if d := take(t, b, limit)[0]; d.Remaining != 998 {
			t.Errorf("%s: %d remain, want 998", name, d.Remaining)
		}
		evals, _ := callsOf(t, c.admin, "eval")
		loads, _ := callsOf(t, c.admin, "script load")
		if evals != 0 || loads != 1 {
			t.Errorf("%s: a script that was forgotten: EVAL %d times, SCRIPT LOAD %d times; want 0 and 1",
				name, evals, loads)
		}
		// Redis 7.4 and later and Valkey forget scripts of EVAL now, but not this one.
		ok(t, c.admin.ConfigResetStat(t.Context()).Err())
		for i := range 600 {
			ok(t, c.admin.Eval(t.Context(), fmt.Sprint("return ", i), nil).Err())
		}
		take(t, b, limit)
		if all, _ := callsOf(t, c.admin, "eval"); all != 600 {
			t.Errorf("%s: after 600 EVALs of others weir sends %d of its own", name, all-600)
		}
	}
}

func TestAServerThatRefusesSCRIPTLOADIsAskedOnce(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	ok(t, admin.Do(t.Context(), "ACL", "SETUSER", "limiter", "on", ">x", "~*", "+@all", "-script").Err())
	client := redis.NewClient(&redis.Options{Addr: server.addr, Username: "limiter", Password: "x"})
	defer client.Close()
	b := newBare(client)
	refused := 0
	for range 4 {
		take(t, b, charge("s", "k", limits.FixedWindow(limits.PerDay(1000)), 1))
		_, n := callsOf(t, admin, "script load")
		refused += n
		flushScripts(t, admin)
	}
	if refused != 1 {
		t.Errorf("%d commands are refused, want 1", refused)
	}
}

// Calls that were under way together say nothing about a server that forgets.
func TestACrowdThatAServerSeesFirstLoadsNothing(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	admin := newClient(t, server.addr)
	flushScripts(t, admin)
	b := newBare(newClient(t, server.addr))
	var wait sync.WaitGroup
	for i := range 64 {
		wait.Go(func() {
			c := charge("s", fmt.Sprint(i), limits.FixedWindow(limits.PerDay(1000)), 1)
			if err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if loads, _ := callsOf(t, admin, "script load"); loads != 0 {
		t.Errorf("SCRIPT LOAD is sent %d times", loads)
	}
}

// Statistics of errors belong to the programs that make them. So a script knows what a key holds
// before it reads it.
func TestTakingsOfHeldUnitsAreNoErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	b := redisbackend.HoldForEver(newBare(client))
	held := func(key string) backends.Charge { return charge("h", key, limits.Concurrent(100), 1) }
	rate := func(key string) backends.Charge {
		return charge("r", key, limits.FixedWindow(limits.PerDay(1000)), 1)
	}
	take(t, b, held("a"))
	take(t, b, held("b"), rate("b"))
	ok(t, admin.ConfigResetStat(t.Context()).Err())
	take(t, b, held("a"))
	if n, _ := callsOf(t, admin, "get"); n != 0 {
		t.Errorf("a taking of held units alone sends GET %d times", n)
	}
	take(t, b, rate("b"), held("b"))
	take(t, b, rate("c"), held("b")) // an absent key beside a held one
	if reads, _ := callsOf(t, admin, "getrange"); reads != 2 {
		t.Errorf("GETRANGE is sent %d times, want once for each rate", reads)
	}
	var all []asking
	for range 4 {
		all = append(all, asking{charges: []backends.Charge{held("a"), rate("b")}},
			asking{charges: []backends.Charge{held("b")}},
			asking{charges: []backends.Charge{held("b"), rate("c")}, peeks: true})
	}
	got, errs, wait := queueAll(t, t.Context(), b, g, all)
	g.open()
	wait()
	for i := range got {
		if errs[i] != nil || !got[i][0].Allowed {
			t.Errorf("%v: %v %v", all[i], got[i], errs[i])
		}
	}
	for l := range strings.Lines(admin.Info(t.Context(), "errorstats").Val()) {
		if strings.HasPrefix(l, "errorstat_") && !strings.HasPrefix(l, "errorstat_NOSCRIPT") {
			t.Errorf("the server counts %s", strings.TrimSpace(l))
		}
	}
}
