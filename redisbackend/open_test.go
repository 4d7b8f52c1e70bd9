package redisbackend_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

func TestOpenReadsEveryFormOfURL(t *testing.T) {
	t.Parallel()
	alone := startRedis(t, "--requirepass", "se/cret")
	socket := filepath.Join(t.TempDir(), "redis.sock")
	startRedis(t, "--unixsocket", socket)
	nodes := startCluster(t)
	watched := startRedis(t)
	sentinel := startSentinel(t, watched)
	for name, url := range map[string]string{
		"one server":      "redis://:se%2Fcret@" + alone.addr + "/1",
		"a unix socket":   "unix://" + socket + "?db=2",
		"a Cluster":       fmt.Sprintf("redis://%s?addr=%s", nodes.masters[0].addr, nodes.masters[1].addr),
		"with a Sentinel": "redis://" + sentinel.addr + "/0?master_name=limits",
	} {
		t.Run(name, func(t *testing.T) {
			b, err := redisbackend.Open(url, redisbackend.Options{Prefix: uniquePrefix(), Budget: time.Minute})
			ok(t, err)
			until(t, "it checks", func() bool { return b.Check(t.Context()) == nil })
			out := make([]limits.Decision, 2)
			charges := []backends.Charge{
				charge("s", "a", limits.FixedWindow(limits.PerDay(1)), 1),
				charge("s", "b", limits.FixedWindow(limits.PerDay(1)), 1),
			}
			for i := range 2 {
				ok(t, b.Take(t.Context(), charges, out))
				if out[0].Allowed != (i == 0) || out[1].Allowed != (i == 0) && out[1].Source != limits.SourceNotAsked {
					t.Errorf("taking %d: %+v", i+1, out)
				}
			}
			ok(t, b.Close())
			fresh := []backends.Charge{charge("s", "c", limits.FixedWindow(limits.PerDay(1)), 1)} // a denial would be remembered
			if err := b.Take(t.Context(), fresh, out[:1]); err == nil {
				t.Error("it decides after it was closed")
			}
		})
	}
}

func TestOpenSetsWhatALimiterNeedsUnlessTheURLDoes(t *testing.T) {
	open := func(url string) redis.Scripter {
		t.Helper()
		b, err := redisbackend.Open(url, redisbackend.Options{})
		ok(t, err)
		t.Cleanup(func() { b.Close() })
		return redisbackend.Client(redisbackend.BareOf(b))
	}
	o := open("rediss://user:word@example.invalid:6380/3?pool_size=7&dial_timeout=2s").(*redis.Client).Options()
	if !o.ContextTimeoutEnabled || o.MaxRetries != 0 || o.DialerRetries != 1 { // go-redis keeps -1 as 0
		t.Errorf("deadlines %v, retries %d, dials %d", o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries)
	}
	if o.TLSConfig == nil || o.DB != 3 || o.PoolSize != 7 || o.DialTimeout != 2*time.Second || o.Username != "user" ||
		o.Password != "word" {
		t.Errorf("the URL says otherwise: %+v", o)
	}
	if o := open("redis://example.invalid?max_retries=2").(*redis.Client).Options(); o.MaxRetries != 2 {
		t.Errorf("%d retries, want the 2 of the URL", o.MaxRetries)
	}
	cluster := open("redis://a.invalid?addr=b.invalid:6379&dialer_retries=4").(*redis.ClusterClient).Options()
	if !cluster.ContextTimeoutEnabled || cluster.DialerRetries != 4 || len(cluster.Addrs) != 2 {
		t.Errorf("%+v", cluster)
	}
}

func TestOpenTellsWhatIsWrongWithoutTheURL(t *testing.T) {
	for url, want := range map[string]string{
		"":                                  "is not like redis://",
		"s3cret":                            "is not like redis://",
		"http://:s3cret@localhost":          "is not like redis://",
		"redis://:s3cret@localhost/x":       "is not like redis://",
		"redis://:s3/cret@localhost":        "is not like redis://",
		"redis://:s3cret%zz@localhost":      "is not like redis://",
		"redis://:s3cret@localhost:port":    "is not like redis://",
		"redis://:s3cret@localhost?pool=3":  "unexpected option: pool",
		"redis://:s3cret@localhost?db=nine": "is not like redis://",
		"redis://:s3cret@localhost?master_name=m&pool_size=s3cret":      "is not like redis://",
		"redis://:s3cret@localhost?addr=b&pool_size=s3cret":             "is not like redis://",
		"redis://:s3cret@localhost/3?addr=b:1":                          "go-redis uses database 0",
		"redis://:s3cret@localhost/0/1?addr=b:1":                        "go-redis uses database 0",
		"redis://:s3cret@localhost/3?db=4":                              "names two databases",
		"redis://:s3cret@localhost/3?db=4&master_name=m":                "names two databases",
		"redis://:s3cret@localhost?addr=b:1&read_only=true":             "remove read_only=",
		"redis://:s3cret@localhost?addr=b:1&route_randomly=1":           "route_randomly=",
		"redis://:s3cret@localhost?master_name=m&route_by_latency=true": "remove read_only=", // go-redis panics
		"redis://:s3cret@localhost?master_name=m&replica_only=true":     "replica_only=",
		// passwords with a ? or # that is not encoded
		"redis://u:2024?s3cret@localhost":                 "has an @ or # behind the host",
		"redis://u:2024?s3cret@localhost/0?addr=b":        "has an @ or # behind the host",
		"redis://u:2024?s3cret@localhost?master_name=m":   "has an @ or # behind the host",
		"redis://u:2024?secret=x@localhost":               "has an @ or # behind the host",
		"redis://u:2024?secret&a=b@localhost":             "has an @ or # behind the host",
		"redis://u:2024?db=s3cret@localhost":              "has an @ or # behind the host",
		"redis://u:2024?db=1&secret@localhost":            "has an @ or # behind the host",
		"redis://u:2024#s3cret@localhost":                 "has an @ or # behind the host",
		"redis://:2024#s3cret@localhost?addr=b":           "has an @ or # behind the host",
		"redis://u:s3cret#x@localhost":                    "is not like redis://",
		"redis://u:p@localhost?S3cret=1":                  "is not like redis://",
		"redis://u:p@localhost?pool=3&s3cret=1":           "is not like redis://",
		"redis://u:p@localhost?poolsize=3&dialtimeout=1s": "unexpected option: dialtimeout, poolsize",
	} {
		b, err := redisbackend.Open(url, redisbackend.Options{})
		a, announcerErr := redisbackend.OpenAnnouncer(url, redisbackend.AnnouncerOptions{})
		for _, err := range []error{err, announcerErr} {
			if b != nil || a != nil || err == nil || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "cret") {
				t.Errorf("%q: %v, want an error that says %q and has no password", url, err, want)
			}
		}
	}
	for _, path := range []string{"", "/", "/0"} {
		b, err := redisbackend.Open("redis://localhost"+path+"?addr=b:1", redisbackend.Options{})
		ok(t, err)
		ok(t, b.Close())
	}
	b, err := redisbackend.Open("redis://localhost:1?master_name=m&password=p@ss", redisbackend.Options{})
	ok(t, err) // an @ in a parameter is as good as %40
	ok(t, b.Close())
	if _, err := redisbackend.Open("redis://localhost", redisbackend.Options{Prefix: "{a}"}); err == nil ||
		!strings.Contains(err.Error(), "prefix") {
		t.Errorf("braces in the prefix: %v", err)
	}
}

func TestCloseLeavesAClientAloneThatNewWasGiven(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	ok(t, redisbackend.MustNewBare(client, redisbackend.BareOptions{}).Close())
	ok(t, client.Ping(t.Context()).Err())
}

func TestCloseEndsWhileAServerIsSilent(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	b, err := redisbackend.Open("redis://"+server.addr, redisbackend.Options{Budget: time.Minute})
	ok(t, err)
	ask := func(ctx context.Context) error {
		return b.Take(
			ctx, []backends.Charge{charge("s", "k", limits.TokenBucket(limits.PerDay(10), 10), 1)},
			make([]limits.Decision, 1),
		)
	}
	ok(t, ask(t.Context()))
	ok(t, newClient(t, server.addr).Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "ALL").Err())
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, leave)
	if ask(ctx) == nil {
		t.Fatal("a server that is silent has decided")
	}
	closed := make(chan struct{})
	go func() { // while the call that was left behind waits for its reply
		b.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close has not returned within a minute")
	}
}

// openCluster opens a backend on a Cluster of one server.
func openCluster(t *testing.T) *redisbackend.Backend {
	t.Helper()
	server := startSoleNode(t)
	b, err := redisbackend.Open("redis://"+server.addr+"?addr="+server.addr, redisbackend.Options{Budget: time.Minute})
	ok(t, err)
	return b
}

// givingBack is charges of which the first is given back: the second is spent.
func givingBack(t *testing.T, b *redisbackend.Backend) []backends.Charge {
	t.Helper()
	limit := limits.LeakyBucket(limits.PerDay(1), 1)
	spent := charge("spent", "k", limit, 1)
	take(t, b, spent)
	return []backends.Charge{charge("given back", "k", limit, 1), spent}
}

func TestCloseDoesNotWaitForAGiveBackThatHangs(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "waits for three seconds")
	b := openCluster(t)
	group := givingBack(t, b)
	hangs, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	redisbackend.Client(redisbackend.BareOf(b)).(*redis.ClusterClient).AddHook(giveBackHook(func() {
		close(hangs)
		<-release
	}))
	take(t, b, group...)
	<-hangs
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		ok(t, err)
	case <-time.After(time.Minute):
		t.Fatal("Close has not returned within a minute")
	}
}

// The race detector sees where it may not.
func TestCloseMayBeCalledWhileDecisionsAreMade(t *testing.T) {
	t.Parallel()
	b := openCluster(t)
	group, bare := givingBack(t, b), redisbackend.BareOf(b) // which remembers no denial
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for bare.Take(t.Context(), group, make([]limits.Decision, len(group))) == nil {
			}
		})
	}
	for range 20 {
		take(t, bare, group...)
	}
	ok(t, b.Close())
	callers.Wait()
}

// End does not wait. A program that closes its backend after its last request left units held.
func TestCloseWaitsForTheEndsOfRequests(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	for range 10 {
		given := newBare(newClient(t, addr))
		opened, err := redisbackend.Open("redis://"+addr, redisbackend.Options{Prefix: uniquePrefix(), Budget: time.Minute})
		ok(t, err)
		for b, bare := range map[interface {
			backends.Backend
			Close() error
		}]*redisbackend.Bare{given: given, opened: redisbackend.BareOf(opened)} {
			cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
			limiter := core.MustNew(core.Config[string]{Backend: cache, Rules: []core.Rule[string]{{
				Name: "uploads", Limit: limits.Concurrent(5), Key: func(key string) (string, error) { return key, nil },
			}}})
			for range 5 {
				o := limiter.Decide(t.Context(), "ann")
				o.End(core.Result{})
			}
			ok(t, b.Close())
			if n := newClient(t, addr).Exists(t.Context(), redisbackend.HeldName(bare, "uploads", "ann")).Val(); n != 0 {
				t.Error("units are held after Close")
			}
		}
	}
}
