package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

func TestScriptsFlushedUnderLoadGoUnnoticed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	operator := s.operator(t)
	const times = 100
	l := prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name: fmt.Sprintf("SCRIPT FLUSH, %d times", times),
		strike: func(l *load) {
			for range times {
				must(t, operator.ScriptFlush(t.Context()))
				l.await(t, 5)
			}
		},
		struck: func(*load) bool { return true },
		heal:   func(*load) {},
	})
	for err := range l.errs {
		if strings.Contains(err, "NOSCRIPT") {
			t.Errorf("the loss of a script was noticed: %s", err)
		}
	}
}

func TestAFlushedServerStartsAfreshAndNoMore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	operator := s.operator(t)
	const times = 5
	prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name: fmt.Sprintf("FLUSHALL, %d times", times),
		strike: func(l *load) {
			for range times {
				must(t, operator.FlushAll(t.Context()))
				l.await(t, perKey/2)
			}
		},
		struck: func(*load) bool { return true },
		heal:   func(*load) {},
		lost:   times,
	})
}

// What the bound above comes to, one step at a time: once more the limit, but not
// where the denial is remembered.
func TestAFlushGivesAKeyItsLimitOnceMore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	fleet := startFleetWithin(t, patience, s.addr, redis.Options{})
	admits := func(in *instance, want int, source limits.Source) {
		t.Helper()
		admitted := 0
		for range 2 * units {
			if o := in.limiter[0].Decide(t.Context(), "key"); o.Allowed() {
				admitted++
			} else if got := o.At(0).Source; admitted == 0 && got != source {
				t.Errorf("%s: denied by %v, want %v", in.kind, got, source)
			}
		}
		if admitted != want {
			t.Errorf("%s: %d admitted, want %d", in.kind, admitted, want)
		}
	}
	admits(fleet[0], units, limits.SourceDenialCache)
	must(t, s.operator(t).FlushAll(t.Context()))
	admits(fleet[0], 0, limits.SourceDenialCache)
	admits(fleet[1], units, limits.SourceDenialCache)
	admits(fleet[0], 0, limits.SourceDenialCache)
}

// The server keeps what it has, refuses what would be new, and evicts nothing.
func TestAFullServerIsSurvived(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--maxmemory-policy", "noeviction")
	operator := s.operator(t)
	prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name: "maxmemory reached, noeviction",
		strike: func(*load) {
			must(t, operator.Set(t.Context(), "ballast", strings.Repeat("b", 16<<20), 0))
			must(t, operator.ConfigSet(t.Context(), "maxmemory", "12mb"))
		},
		heal: func(*load) { must(t, operator.Del(t.Context(), "ballast")) },
	})
}

// As after a failover that left an application with the old master.
func TestAServerThatBecomesAReplicaIsSurvived(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	operator := s.operator(t)
	prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name:   "READONLY",
		strike: func(*load) { must(t, operator.ReplicaOf(t.Context(), "127.0.0.1", "1")) },
		heal:   func(*load) { must(t, operator.ReplicaOf(t.Context(), "NO", "ONE")) },
	})
}

// A denial writes nothing, so that it needs no server that does.
func TestAServerThatRefusesWritesStillDenies(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*redis.Client) redis.Cmder{
		"maxmemory": func(c *redis.Client) redis.Cmder { return c.ConfigSet(t.Context(), "maxmemory", "1") },
		"READONLY":  func(c *redis.Client) redis.Cmder { return c.ReplicaOf(t.Context(), "127.0.0.1", "1") },
	} {
		s := startServer(t)
		fleet := startFleetWithin(t, patience, s.addr, redis.Options{})
		exhaust(t, fleet[:1], "exhausted")
		must(t, refuse(s.operator(t)))
		for _, in := range fleet[1:] {
			o := in.limiter[0].Decide(t.Context(), "exhausted")
			if source := o.At(0).Source; o.Verdict() != core.Denied || source != limits.SourcePrimary {
				t.Errorf("%s, %s: an exhausted key: %v by %v", name, in.kind, o.Verdict(), source)
			}
			o = in.limiter[0].Decide(t.Context(), "new")
			if source := o.At(0).Source; o.Verdict() != core.Allowed || source != limits.SourceFallback {
				t.Errorf("%s, %s: a new key: %v by %v", name, in.kind, o.Verdict(), source)
			}
		}
	}
}

// The server saves all, ends, and takes its time to load that again.
func TestAServerThatIsLoadingIsSurvived(t *testing.T) {
	t.Parallel()
	args := []string{"--rdbcompression", "no"}
	if !beforeRedis7(t) { // which answers after each 2 MB
		args = append(args, "--loading-process-events-interval-bytes", "1024")
	}
	s := startServer(t, args...)
	operator := s.operator(t)
	const keys = 20_000
	_, err := operator.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range keys {
			p.Set(t.Context(), fmt.Sprint("ballast ", i), strings.Repeat("b", 1<<10), 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prove(t, startFleet(t, s.addr, redis.Options{}), fault{
		name: "LOADING",
		strike: func(*load) {
			operator.ShutdownSave(t.Context()) // its reply is the end of the connection
			<-s.exited
			s.restart(t, "--key-load-delay", "2000") // microseconds: 40 s in all
		},
		heal: func(*load) {
			if beforeRedis7(t) { // refuses CONFIG SET while it loads
				s.kill()
				s.restart(t)
				return
			}
			must(t, operator.ConfigSet(t.Context(), "key-load-delay", "0"))
		},
	})
}

// The password is changed on the server, and connections made with the old one
// are ended, until it is changed back.
func TestAWrongPasswordIsSurvived(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--requirepass", "old")
	operator := redis.NewClient(&redis.Options{Addr: s.addr, Password: "old", PoolSize: 1})
	defer operator.Close()
	prove(t, startFleet(t, s.addr, redis.Options{Password: "old"}), fault{
		name: "wrong password",
		strike: func(*load) {
			must(t, operator.ConfigSet(t.Context(), "requirepass", "new"))
			must(t, operator.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes"))
		},
		heal: func(*load) { must(t, operator.ConfigSet(t.Context(), "requirepass", "old")) },
	})
}
