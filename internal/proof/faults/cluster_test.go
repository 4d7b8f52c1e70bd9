package faults

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
)

// startMasters starts a Redis Cluster of three masters without replicas. One that
// is gone is missed for its own slots only (cluster-require-full-coverage no).
func startMasters(t *testing.T) []*server {
	t.Helper()
	var masters []*server
	var operators []*redis.Client
	for range 3 {
		s := startNode(t, "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
		masters, operators = append(masters, s), append(operators, s.operator(t))
	}
	for i, operator := range operators {
		must(t, operator.Do(t.Context(), "cluster", "set-config-epoch", i+1))
		must(t, operator.ClusterAddSlotsRange(t.Context(), i*slots/3, (i+1)*slots/3-1))
		host, port, _ := net.SplitHostPort(masters[i].addr)
		must(t, operators[0].Do(t.Context(), "cluster", "meet", host, port, masters[i].bus))
	}
	eventually(t, "the masters are one cluster", func() bool {
		return !slices.ContainsFunc(operators, func(o *redis.Client) bool {
			nodes := o.ClusterNodes(t.Context()).Val()
			info := o.ClusterInfo(t.Context()).Val()
			return strings.Count(nodes, " connected ") != 3 || strings.Contains(nodes, "handshake") ||
				!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprint("cluster_slots_ok:", slots))
		})
	})
	return masters
}

const slots = 16384

// startClusterFleet returns an instance for either kind of client that an
// application can have for a Cluster. Auto-pipeliners are not among them: what
// they send together waits for the slowest server.
func startClusterFleet(t *testing.T, masters []*server) (fleet []*instance, client *redis.ClusterClient) {
	t.Helper()
	var addrs []string
	for _, s := range masters {
		addrs = append(addrs, s.addr)
	}
	for id, kind := range kinds[:2] {
		options := &redis.ClusterOptions{Addrs: addrs}
		if kind == "deadlines" { // as in docs/redis.md
			options.ContextTimeoutEnabled, options.MaxRetries, options.DialerRetries = true, -1, 1
			options.DisableRoutingPolicies = true
		}
		client = redis.NewClusterClient(options)
		t.Cleanup(func() { client.Close() })
		fleet = append(fleet, newInstance(id, client, 0))
	}
	return fleet, client
}

// gone is how long a master is: long enough for calls that hang to fill whatever
// bounds them.
const gone = 5 * time.Second

// A master that has a third of the slots falls silent.
func TestOneSilentMasterOfThreeLeavesTheOtherSlotsAlone(t *testing.T) {
	t.Parallel()
	loseMaster(t, "stopped (SIGSTOP)", 0, (*server).stop, (*server).resume)
}

// The same, but that its connections are refused.
func TestOneKilledMasterOfThreeLeavesTheOtherSlotsAlone(t *testing.T) {
	t.Parallel()
	loseMaster(t, "killed (kill -9) and restarted", 1,
		func(s *server, _ *testing.T) { s.kill() }, func(s *server, t *testing.T) { s.restart(t) })
}

// loseMaster loses one of three masters, which nobody replaces. The others are to
// notice nothing: every decision about a key of theirs is by Redis. Those about its
// own keys wait at first; then one at a time does, to find out whether it is back,
// and the others fall back at once.
func loseMaster(t *testing.T, fate string, lost int, lose, giveBack func(*server, *testing.T)) {
	masters := startMasters(t)
	fleet, client := startClusterFleet(t, masters)
	shareExactlyOnAll(t, fleet, client)
	by := clients{callers: 64, pace: 150 * time.Millisecond, perKey: 2 * units}
	dead := masters[1]
	var since time.Time
	var lasted time.Duration
	proved := make(chan struct{})
	first, third := slowest(t, masters[0], proved), slowest(t, masters[2], proved)
	l := prove(t, fleet, fault{
		name:   "one master of three " + fate,
		by:     by,
		strike: func(*load) { lose(dead, t); since = time.Now() },
		struck: func(l *load) bool { return time.Since(since) > gone && l.haveDoneWithout(300) },
		heal:   func(*load) { giveBack(dead, t); lasted = time.Since(since) },
		lost:   lost,
	})
	close(proved)
	late := max(l.late, <-first, <-third)
	shareExactlyOnAll(t, fleet, client)

	healthy, own := l.byMaster(t, client, dead)
	const atOnce = budget / 2 // whoever falls back earlier was not given a chance
	for _, in := range fleet {
		h, s := &healthy[in.id], &own[in.id]
		refused, inTheEnd := 0, 0
		for i := range h.fell {
			if h.fell[i] < atOnce {
				refused++
			} else {
				inTheEnd++
			}
		}
		// A machine that stands still, or holds a server up, is no fault of the lost master.
		stoodStill := late >= budget/4
		tolerated := 0
		if stoodStill {
			tolerated = h.primary
		}
		if h.primary == 0 || refused+inTheEnd > tolerated {
			t.Errorf("%s: of decisions about keys of the other masters, %d by Redis, %d fell back at once, %d in the end: %v; "+
				"the machine or a server was late by %v at most",
				in.kind, h.primary, refused, inTheEnd, h.errs, late)
		}
		waited := 0
		for _, d := range s.fell {
			if d > budget*4/5 {
				waited++
			}
		}
		// While the machine stands still for several budgets, each caller waits as often.
		few := by.callers*(1+int(late/budget)) + int(lasted/budget)
		if s.primary+len(s.fell) < 300 || waited > 2*few {
			t.Errorf("%s: of %d decisions about keys of the lost master %d waited, want about %d at most: each caller "+
				"once, and one at a time",
				in.kind, s.primary+len(s.fell), waited, few)
		}
		opened, _ := in.changes.opened(since, since.Add(lasted))
		if opened > 0 && !stoodStill {
			t.Errorf("%s: the breaker opened %d times: two masters of three were well", in.kind, opened)
		}
		t.Logf("FAULT one master of three %s, %s: healthy slots %d decisions a second by Redis, %d fell back at once, %d "+
			"in the end, waits (median, 99%%, longest) %s ms; its slots %d fell back, of them %d waited, waits %s ms; gone "+
			"for %s ms, breaker opened %d times; machine or servers late by up to %s ms",
			fate, in.kind, int(float64(h.primary)/lasted.Seconds()), refused, inTheEnd, spread(append(h.waits, h.fell...)),
			len(s.fell), waited, spread(s.fell), ms(lasted), opened, ms(late))
	}
}

// slowest asks a server over a connection of its own until ended is closed. Then it
// says how long the slowest answer took.
func slowest(t *testing.T, s *server, ended <-chan struct{}) <-chan time.Duration {
	t.Helper()
	operator, took := s.operator(t), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for {
			select {
			case <-ended:
				took <- most
				return
			case <-t.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
			asked := time.Now()
			operator.Ping(t.Context())
			most = max(most, time.Since(asked))
		}
	}()
	return took
}

// masterOf returns the address of the master that has the state of a key.
func masterOf(t *testing.T, client *redis.ClusterClient, scope, key string) string {
	t.Helper()
	master, err := client.MasterForKey(t.Context(), "weir:"+scope+"="+key)
	if err != nil {
		t.Fatal(err)
	}
	return master.Options().Addr
}

// shareExactlyOnAll is shareExactly until every master has had a key.
func shareExactlyOnAll(t *testing.T, fleet []*instance, client *redis.ClusterClient) {
	t.Helper()
	for seen := make(map[string]bool); len(seen) < 3; {
		key := shareExactly(t, fleet)
		for _, scope := range scopes {
			seen[masterOf(t, client, scope, key)] = true
		}
	}
}

// side is what became of an instance's decisions about keys of some masters,
// without those that its denial cache made.
type side struct {
	primary     int
	waits, fell []time.Duration // by Redis, and not
	errs        map[string]int
}

// byMaster divides what the instances decided during the fault.
func (l *load) byMaster(t *testing.T, client *redis.ClusterClient, dead *server) (healthy, own [len(kinds)]side) {
	t.Helper()
	owners := make(map[[2]int]string)
	for _, e := range l.events {
		if e.phase != during || e.source == limits.SourceDenialCache {
			continue
		}
		at := [2]int{e.key, e.policy}
		if owners[at] == "" {
			owners[at] = masterOf(t, client, scopes[e.policy], l.name(e.key))
		}
		s := &healthy[e.instance]
		if owners[at] == dead.addr {
			s = &own[e.instance]
		}
		if e.source == limits.SourcePrimary {
			s.primary++
			s.waits = append(s.waits, e.wait)
			continue
		}
		s.fell = append(s.fell, e.wait)
		if s.errs == nil {
			s.errs = make(map[string]int)
		}
		s.errs[brief(e.err)]++
	}
	return healthy, own
}
