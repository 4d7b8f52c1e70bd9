package examples

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/keyfuncs"
)

// startCluster starts a Redis Cluster of three masters, each with a third of the slots. It
// returns a URL with all three, and a client of each.
func startCluster(t *testing.T) (url string, masters []*redis.Client) {
	t.Helper()
	ctx := t.Context()
	var addrs, buses []string
	for range 3 {
		addr := freeAddr(t)
		_, bus, _ := net.SplitHostPort(freeAddr(t))
		startRedisServer(t, addr, "--cluster-enabled", "yes", "--cluster-port", bus)
		master := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { master.Close() })
		addrs, buses, masters = append(addrs, addr), append(buses, bus), append(masters, master)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, master := range masters {
		must(master.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		must(master.ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err())
		host, port, _ := net.SplitHostPort(addrs[i])
		must(masters[0].Do(ctx, "cluster", "meet", host, port, buses[i]).Err())
	}
	for _, master := range masters {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			nodes, info := master.ClusterNodes(ctx).Val(), master.ClusterInfo(ctx).Val()
			if strings.Count(nodes, " connected ") == 3 && strings.Contains(info, "cluster_state:ok") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the servers are no cluster after a minute:\n%s\n%s", nodes, info)
			}
		}
	}
	return "redis://" + addrs[0] + "?addr=" + addrs[1] + "&addr=" + addrs[2], masters
}

// slotsOf returns the slots of the states of a key by their scopes.
func slotsOf(t *testing.T, masters []*redis.Client, key string) map[string]int64 {
	t.Helper()
	slots := make(map[string]int64)
	for _, master := range masters {
		names, err := master.Keys(t.Context(), "stripe:*:"+key).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			parts := strings.Split(name, ":")
			if slots[parts[len(parts)-2]], err = master.ClusterKeySlot(t.Context(), name).Result(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return slots
}

// untilLimited asks until a denial has a reason. On a Cluster units return a moment after the
// answer, so on a busy machine another reason may come first.
func untilLimited(t *testing.T, reason, key, method, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		a := until(t, http.StatusTooManyRequests, key, method, url)
		if a.Header.Get("Stripe-Rate-Limited-Reason") == reason || time.Now().After(deadline) {
			a.limited(t, reason)
			return
		}
	}
}

func TestStripeReachesItsLimitsOnACluster(t *testing.T) {
	url, masters := startCluster(t)
	program := build(t, "systems/stripe")
	run := func(t *testing.T, period string) (customers, charges string) {
		t.Helper()
		at := launch(t, program, "REDIS_URL="+url, "PERIOD="+period, "WORKERS=1000")
		return at + "/v1/customers", at + "/v1/charges"
	}
	t.Run("rates", func(t *testing.T) {
		customers, charges := run(t, "1m")
		all := newCrowd(t)
		for _, key := range []string{"live_1", "live_2"} { // one of each goes on
			all.send(1, key, "GET", customers)
			until(t, http.StatusOK, key, "POST", charges)
		}
		untilLimited(t, "global-rate", "live_1", "GET", customers)
		untilLimited(t, "endpoint-rate", "live_1", "POST", charges)
		until(t, http.StatusOK, "live_2", "GET", customers)

		seen := slices.Collect(maps.Values(slotsOf(t, masters, "everybody")))
		for _, key := range []string{"live_1", "live_2"} {
			var slots map[string]int64
			for deadline := time.Now().Add(time.Minute); len(slots) < 3; { // a bucket that is full has no state
				asKey(t, key, "GET", customers)
				asKey(t, key, "POST", charges)
				if slots = slotsOf(t, masters, keyfuncs.Digest("sk_"+key)); time.Now().After(deadline) {
					t.Fatalf("the states of %s are %v, want three", key, slots)
				}
			}
			if slots["rate"] != slots["charges"] || slots["rate"] != slots["in-flight"] {
				t.Errorf("the states of one key lie in several slots: %v", slots)
			}
			seen = append(seen, slots["rate"])
		}
		slices.Sort(seen)
		if n := len(slices.Compact(slices.Clone(seen))); n != 4 {
			t.Errorf("two rules of the fleet and two keys have the slots %v, want four", seen)
		}
	})
	t.Run("requests at once of a key", func(t *testing.T) {
		customers, charges := run(t, "1ms")
		newCrowd(t).send(20, "live_3", "GET", customers)
		untilLimited(t, "global-concurrency", "live_3", "POST", charges)
		until(t, http.StatusOK, "live_4", "GET", customers)
	})
	t.Run("requests at once of the fleet", func(t *testing.T) {
		customers, charges := run(t, "1ms")
		all := newCrowd(t)
		for _, key := range []string{"live_1", "live_2", "live_3", "live_4"} {
			all.send(20, key, "GET", customers)
		}
		until(t, http.StatusServiceUnavailable, "live_5", "GET", customers).full(t)
		until(t, http.StatusOK, "live_5", "POST", charges)
		all.send(20, "live_5", "POST", charges)
		until(t, http.StatusServiceUnavailable, "live_6", "POST", charges).full(t)
	})
}
