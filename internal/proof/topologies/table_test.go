package topologies

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

const (
	units  = 10               // of each limit
	keys   = 10               // of each limit
	asked  = 3 * units        // requests of each key
	crowd  = 16               // callers at once
	beside = 8                // processes that start beside a silent server
	given  = 10 * time.Second // to a decision whose time does not matter
)

// loads are limits whose scripts send different commands.
var loads = []limits.Limit{
	limits.TokenBucket(limits.PerDay(units), units),
	limits.SlidingLog(limits.PerDay(units)),
	limits.Concurrent(units),
}

// requests is how many requests a site is asked, and most how many it may admit.
const (
	requests = 3 * keys * asked
	most     = 3 * keys * units
)

// process is a process that decides by a site.
type process struct {
	*redisbackend.Backend
	bare backends.Backend // without denial cache and breaker
}

// open starts a process.
func (s *site) start(t testing.TB) *process {
	t.Helper()
	p := new(process)
	var err error
	p.Backend, err = s.open(redisbackend.Options{
		HashTag: s.tag, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Wrap: func(b backends.Backend) backends.Backend {
			p.bare = b
			return b
		},
	})
	ok(t, err)
	return p
}

// decide has a backend decide one request, and reports whether Redis allowed it.
func decide(
	ctx context.Context, b backends.Backend, scope, key string, limit limits.Limit,
) (allowed bool, err error) {
	out := make([]limits.Decision, 1)
	charges := []backends.Charge{{Scope: scope, Key: key, Limit: limit, Cost: 1}}
	err = b.Take(ctx, charges, out)
	return err == nil && out[0].Allowed, err
}

// plenty is a limit that denies nothing here, so that each decision asks Redis.
var plenty = limits.FixedWindow(limits.PerDay(1_000_000))

// tally is how a crowd fared.
type tally struct {
	admitted, decided atomic.Int64
	over              atomic.Int64 // keys that were admitted more than their limit
	failure           atomic.Value // the first error of a decision
}

// crowded has a crowd ask for all keys of all limits.
func (p *process) crowded(ctx context.Context) *tally {
	var (
		all      tally
		admitted [3][keys]atomic.Int64
		next     atomic.Int64
		callers  sync.WaitGroup
	)
	for range crowd {
		callers.Go(func() {
			for n := next.Add(1) - 1; n < requests; n = next.Add(1) - 1 {
				load, key := n%3, n/3%keys
				ctx, cancel := context.WithTimeout(ctx, given)
				allowed, err := decide(ctx, p.bare, fmt.Sprint("load", load), fmt.Sprint(key), loads[load])
				cancel()
				if err != nil {
					all.failure.CompareAndSwap(nil, fmt.Errorf("%w", err))
					continue
				}
				all.decided.Add(1)
				if allowed {
					all.admitted.Add(1)
					if admitted[load][key].Add(1) == units+1 {
						all.over.Add(1)
					}
				}
			}
		})
	}
	callers.Wait()
	return &all
}

// firstDecision returns after what time a new process first decides a key by Redis, which is
// asked as clients do who come again and again.
func (s *site) firstDecision(t testing.TB, key string) time.Duration {
	begun := time.Now()
	p := s.start(t)
	defer p.Close()
	until(t, "Redis decides a key for a new process", func() bool { return p.asks(t, key) == nil })
	return time.Since(begun)
}

// asks has the process decide by a key, and returns nil if Redis decided.
func (p *process) asks(t testing.TB, key string) error {
	_, err := decide(t.Context(), p, "victim", key, plenty)
	return err
}

// decides waits until Redis decides a key.
func (p *process) decides(t testing.TB, key string) {
	t.Helper()
	until(t, "Redis decides", func() bool { return p.asks(t, key) == nil })
}

// owner returns the server that decides a key.
func (s *site) owner(t testing.TB, key string) (owner *server) {
	t.Helper()
	until(t, "a server has the key", func() bool {
		i := slices.IndexFunc(s.data, func(server *server) bool { return server.has(t, ":"+key) })
		if i >= 0 {
			owner = s.data[i]
		}
		return i >= 0
	})
	return owner
}

// row is what is measured of one site.
type row struct {
	server            string // name and version
	admitted, decided int64
	refused           map[string]int // by the error, without NOSCRIPT
	unknown, scripts  int            // NOSCRIPT, and how many scripts all servers know
	check             string         // "": nil
	hasOthers         bool           // other servers decide other keys

	first, besideSilent, backAfter time.Duration
}

// measure measures a site.
func (s *site) measure(t testing.TB, r *row) {
	s.allow(t, s.data)
	s.count(t)
	p := s.start(t)
	defer p.Close()
	for _, load := range []int{0, 1, 2} { // so that the crowd finds the scripts
		for key := range keys {
			ctx, cancel := context.WithTimeout(t.Context(), given)
			_, err := decide(ctx, p.bare, "first", fmt.Sprint(key), loads[load])
			cancel()
			ok(t, err)
		}
	}
	all := p.crowded(t.Context())
	r.admitted, r.decided = all.admitted.Load(), all.decided.Load()
	if failure := all.failure.Load(); failure != nil {
		t.Logf("%d of %d decisions failed, such as: %v", requests-r.decided, requests, failure)
	}
	if err := p.Check(t.Context()); err != nil {
		r.check = err.Error()
	}
	for range 3 {
		r.first = max(r.first, s.firstDecision(t, "newcomer"))
	}
	r.refused, r.scripts = s.refusals(t), s.scripts(t)
	r.unknown = r.refused["NOSCRIPT"]
	delete(r.refused, "NOSCRIPT")
	if over := all.over.Load(); over > 0 && !s.spreads {
		t.Errorf("%d keys were admitted more than their limit", over)
	}

	p.decides(t, "victim")
	victim := s.owner(t, "victim")
	if s.tag == "" || s.spreads {
		r.hasOthers = s.several(t)
	}
	if r.hasOthers {
		r.besideSilent = s.besideSilent(t, p, victim)
	}
	p.decides(t, "victim")
	victim = s.owner(t, "victim")
	r.backAfter = s.lose(t, p, victim)
}

// besideSilent returns after what time the last of some new processes decides a key of another
// server, while one is silent.
func (s *site) besideSilent(t testing.TB, p *process, silent *server) (longest time.Duration) {
	key := ""
	for i := 0; key == ""; i++ {
		candidate := fmt.Sprint("other", i)
		p.decides(t, candidate)
		if s.owner(t, candidate) != silent {
			key = candidate
		}
	}
	end := silent.silence(t)
	defer end()
	var mu sync.Mutex
	var processes sync.WaitGroup
	for range beside {
		processes.Go(func() {
			took := s.firstDecision(t, key)
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, took)
		})
	}
	processes.Wait()
	return longest
}

// lose kills the server of a key, and returns how long after the servers can decide it again Redis
// does decide it again.
func (s *site) lose(t testing.TB, p *process, victim *server) time.Duration {
	var ready, again atomic.Int64
	var asker sync.WaitGroup
	begun := time.Now()
	victim.kill()
	asker.Go(func() {
		for ready.Load() == 0 || again.Load() == 0 {
			if p.asks(t, "victim") == nil {
				again.CompareAndSwap(0, int64(time.Since(begun)))
			}
			if t.Context().Err() != nil || time.Since(begun) > 2*time.Minute {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	if s.replace != nil {
		s.replace(t, victim)
	} else {
		until(t, "the process takes Redis for gone", func() bool { return p.Status().State == "open" })
		victim.start(t)
		s.allow(t, []*server{victim})
	}
	ready.Store(int64(time.Since(begun)))
	asker.Wait()
	if again.Load() == 0 {
		t.Error("two minutes after its server was killed Redis does not decide a key")
	}
	return max(0, time.Duration(again.Load()-ready.Load()))
}

// What docs/redis.md says of each server in each topology: no server admits more than a limit,
// Redis decides each request, and no server refuses a command but a script that it does not know.
func TestOnEachServerInEachTopologyLimitsHold(t *testing.T) {
	testrun.FullOnly(t, "120 sites of up to six servers take two minutes")
	var mu sync.Mutex
	titles := make(map[string]string)
	for _, program := range programs {
		titles[program] = title(t, program)
	}
	rows := make(map[string]*row)
	t.Cleanup(func() { t.Log("\n" + tables(rows)) })
	for _, topology := range topologies {
		for _, program := range programs {
			for _, u := range users {
				r := &row{server: titles[program]}
				t.Run(topology.name+"/"+program+"/"+u.name, func(t *testing.T) {
					t.Parallel()
					s := topology.start(t, program, u)
					s.measure(t, r)
					r.judge(t, s)
					mu.Lock()
					defer mu.Unlock()
					rows[topology.name+program+u.name] = r
				})
			}
		}
	}
}

// judge fails the test where a row is not what docs/redis.md promises.
func (r *row) judge(t *testing.T, s *site) {
	if r.decided != requests {
		t.Errorf("Redis decided %d of %d requests", r.decided, requests)
	}
	if !s.spreads && r.admitted != most {
		t.Errorf("%d were admitted, want %d", r.admitted, most)
	}
	for name, n := range r.refused {
		if !s.learns || name != "CROSSSLOT" || n > crowd {
			t.Errorf("the servers refused %d times: %s", n, name)
		}
	}
	if r.unknown > r.scripts {
		t.Errorf("%d times a script was not known, of %d on all servers", r.unknown, r.scripts)
	}
	if !strings.Contains(r.check, s.check) || (s.check == "") != (r.check == "") {
		t.Errorf("Check says %q, want %q", r.check, s.check)
	}
}

// tables prints the two tables of docs/redis.md: what is counted, and how long a key waits.
func tables(rows map[string]*row) string {
	var titles []string
	var counts, times strings.Builder
	for _, topology := range topologies {
		var all []*row
		back, silent := "", ""
		titles = titles[:0]
		for _, program := range programs {
			var backs, silents []string
			for _, u := range users {
				r := rows[topology.name+program+u.name]
				if r == nil {
					return "" // another test was asked for
				}
				all = append(all, r)
				backs = append(backs, seconds(r.backAfter))
				silents = append(silents, seconds(r.besideSilent))
			}
			titles = append(titles, all[len(all)-1].server)
			back += " " + strings.Join(backs, ", ") + " |"
			silent += " " + strings.Join(silents, ", ") + " |"
		}
		fmt.Fprintf(&counts, "| %s | %s | %s | %s | %s | %s |\n", topology.name,
			span(all, func(r *row) string { return fmt.Sprint(r.admitted) }),
			span(all, func(r *row) string { return fmt.Sprint(r.decided) }),
			span(all, (*row).refusals),
			span(all, func(r *row) string { return fmt.Sprint(r.unknown) }),
			span(all, func(r *row) string { return fmt.Sprint(r.first.Milliseconds()) }))
		fmt.Fprintf(&times, "| %s |%s\n", topology.name, back)
		if all[0].hasOthers {
			fmt.Fprintf(&times, "| – a process that starts beside a silent server |%s\n", silent)
		}
	}
	return fmt.Sprintf("| | admitted of %d | decided by Redis of %d | refused commands | NOSCRIPT "+
		"| first decision of a new process, ms |\n|---|--:|--:|--:|--:|--:|\n%s\n| | %s |\n|---%s|\n%s",
		most, requests, counts.String(),
		strings.Join(titles, " | "), strings.Repeat("|--:", len(titles)), times.String())
}

// refusals says how many commands were refused, by the error.
func (r *row) refusals() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.refused[name], name))
	}
	return cmp.Or(strings.Join(parts, ", "), "0")
}

// span returns the least and the greatest of what rows say.
func span(rows []*row, say func(*row) string) string {
	var all []string
	for _, r := range rows {
		all = append(all, say(r))
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	if first, last := all[0], all[len(all)-1]; first != last {
		return first + " to " + last
	}
	return all[0]
}
