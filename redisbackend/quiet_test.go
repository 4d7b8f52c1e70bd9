package redisbackend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// ledger is what servers count while a client with few rights decides.
type ledger struct{ admins []*redis.Client }

// openLedger makes the user that docs/redis.md describes on each server, who sees the keys of a
// prefix, and has the servers count from now on.
func openLedger(t *testing.T, prefix string, addrs []string, lists ...string) *ledger {
	t.Helper()
	l := new(ledger)
	for _, addr := range addrs {
		admin := newClient(t, addr)
		user(t, admin, prefix, lists...)
		ok(t, admin.Do(t.Context(), "ACL", "LOG", "RESET").Err())
		ok(t, admin.ConfigResetStat(t.Context()).Err())
		l.admins = append(l.admins, admin)
	}
	return l
}

// isQuiet fails the test unless each server has refused nothing, and has replied no error but one
// NOSCRIPT, for the only script that was sent.
func (l *ledger) isQuiet(t *testing.T) {
	t.Helper()
	asked := 0
	for _, admin := range l.admins {
		addr := admin.Options().Addr
		refused, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
		ok(t, err)
		if len(refused) > 0 {
			t.Errorf("%s has refused: %v", addr, refused)
		}
		info, err := admin.Info(t.Context(), "all").Result()
		ok(t, err)
		scripts := strings.Contains(info, "cmdstat_evalsha:")
		if scripts {
			asked++
		}
		for line := range strings.Lines(info) {
			if !strings.HasPrefix(line, "errorstat_") {
				continue
			}
			if line = strings.TrimSpace(line); line != "errorstat_NOSCRIPT:count=1" || !scripts {
				t.Errorf("%s has replied %s", addr, line)
			}
		}
		for _, command := range []string{"command", "readonly"} {
			if strings.Contains(info, "cmdstat_"+command+":") || strings.Contains(info, "cmdstat_"+command+"|") {
				t.Errorf("%s was sent %s", addr, command)
			}
		}
	}
	if asked == 0 {
		t.Error("no server was asked")
	}
}

// decidesOften has 1,000 requests by two rules decided, and everything checked.
func decidesOften(t *testing.T, b backends.Backend, check func() error) {
	t.Helper()
	limit := limits.SlidingWindow(limits.PerDay(5))
	out := make([]limits.Decision, 2)
	for i := range 1000 {
		charges := []backends.Charge{charge("a", fmt.Sprint(i), limit, 1), charge("b", fmt.Sprint(i), limit, 1)}
		ok(t, b.Take(t.Context(), charges, out))
	}
	ok(t, check())
}

func TestAClientByOpenSendsNothingThatIsRefused(t *testing.T) {
	t.Parallel()
	for topology, start := range map[string]func(*testing.T) (url string, addrs []string, lists []string){
		"one server": func(t *testing.T) (string, []string, []string) {
			addr := startRedis(t).addr
			return "redis://limiter:secret@" + addr, []string{addr}, nil
		},
		"a Cluster": func(t *testing.T) (string, []string, []string) {
			var addrs []string
			for _, node := range startCluster(t).nodes() {
				addrs = append(addrs, node.addr)
			}
			url := fmt.Sprintf("redis://limiter:secret@%s?addr=%s", addrs[0], addrs[1])
			return url, addrs, []string{aclCluster, aclMasters}
		},
		"with a Sentinel": func(t *testing.T) (string, []string, []string) {
			server := startRedis(t)
			sentinel := startSentinel(t, server)
			url := "redis://" + sentinel.addr + "/0?master_name=limits&username=limiter&password=secret"
			return url, []string{server.addr}, nil
		},
	} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			url, addrs, lists := start(t)
			prefix := uniquePrefix() + ":eu" // the user may name keys that begin with all of it
			l := openLedger(t, prefix, addrs, append(lists, aclDecide, aclCheck)...)
			b, err := redisbackend.Open(patientURL(url), redisbackend.Options{
				Prefix: prefix, Budget: time.Hour, Wrap: func(inner backends.Backend) backends.Backend {
					redisbackend.WaitForEver(inner.(*redisbackend.Bare))
					return inner
				},
			})
			ok(t, err)
			defer b.Close()
			decidesOften(t, b, func() error { return b.Check(t.Context()) })
			l.isQuiet(t)
		})
	}
}

// patientURL returns a URL whose client waits, since the machine may be slow.
func patientURL(url string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + "dial_timeout=1m&read_timeout=1m&write_timeout=1m&pool_timeout=1m"
}

// A Ring has no URL. Its client is the one of docs/redis.md.
func TestAQuietRingSendsNothingThatIsRefused(t *testing.T) {
	t.Parallel()
	shards := make(map[string]string)
	var addrs []string
	for i := range 3 {
		addr := startRedis(t).addr
		addrs, shards[fmt.Sprint(i)] = append(addrs, addr), addr
	}
	prefix := uniquePrefix()
	l := openLedger(t, prefix, addrs, aclDecide, aclCheck, aclRing)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: shards, Username: "limiter", Password: "secret", DisableIdentity: true,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		NewClient: func(o *redis.Options) *redis.Client {
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
			return redis.NewClient(o)
		},
	})
	defer ring.Close()
	b := redisbackend.MustNewBare(ring, redisbackend.BareOptions{Prefix: prefix})
	redisbackend.WaitForEver(b)
	decidesOften(t, b, func() error { return b.Check(t.Context()) })
	l.isQuiet(t)
}

// It asks COMMAND with each decision if its user may not send it, and otherwise once.
func TestCheckFindsAClientThatAsksForCommands(t *testing.T) {
	t.Parallel()
	node := startSoleNode(t)
	for want, o := range map[string]redis.ClusterOptions{
		"set DisableRoutingPolicies": {},
		"":                           {DisableRoutingPolicies: true},
		"leave out ReadOnly":         {DisableRoutingPolicies: true, ReadOnly: true},
		"RouteRandomly":              {DisableRoutingPolicies: true, RouteRandomly: true},
	} {
		o.Addrs = []string{node.addr}
		client := redis.NewClusterClient(&o)
		defer client.Close()
		ok(t, node.ConfigResetStat(t.Context()).Err())
		b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: uniquePrefix()})
		take(t, b, charge("s", "k", limits.FixedWindow(limits.PerDay(1)), 1))
		if n, _ := callsOf(t, node.Client, "command"); (n > 0) != (want != "") {
			t.Errorf("%q: COMMAND is sent %d times", want, n)
		}
		saysThat(t, "Check", b.Check(t.Context()), want)
	}
}
