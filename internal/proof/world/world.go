package world

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/internal/ground/slot"
)

// Topology says how the servers share the keys.
type Topology int

const (
	One     Topology = iota // a server for all keys
	Ring                    // three independent servers
	Cluster                 // three servers with a third of the slots each
)

func (t Topology) String() string { return [...]string{"one server", "a ring", "a cluster"}[t] }

// World is a system in a bubble. Make it in the bubble, and call Close at the end.
type World struct {
	t        testing.TB
	topology Topology
	begun    time.Time
	calm     atomic.Bool // clients ask less

	mu        sync.Mutex
	random    *rand.Rand
	servers   []*Server
	processes []*Process // the running ones, by their number in a scenario
	all       []*Process // with ended ones
	paths     []*path
	broken    []string // laws
	laws      *laws
	trace     *Trace // nil: nothing is compared with a model
}

// New returns a world with servers but without processes.
func New(t testing.TB, seed uint64, topology Topology) *World {
	w := &World{t: t, topology: topology, begun: time.Now(), random: rand.New(rand.NewPCG(seed, 1))}
	w.laws = newLaws(w)
	names := []string{"10.0.0.1:6379"}
	if topology != One {
		names = []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}
	}
	for i, name := range names {
		w.servers = append(w.servers, newServer(w, name, time.Duration(i)*time.Hour))
	}
	return w
}

// near is the latency without faults: that of one data centre.
var near = Latency{Least: 100 * time.Microsecond, Spread: 500 * time.Microsecond}

// serverAt returns the server whose clock has shown an instant. The clocks are far apart.
func (w *World) serverAt(at int64) *Server {
	return slices.MinFunc(w.servers, func(a, b *Server) int {
		return cmp.Compare(a.now().Sub(time.UnixMicro(at)).Abs(), b.now().Sub(time.UnixMicro(at)).Abs())
	})
}

// kindOf returns what the limit of d counts.
func kindOf(d *core.RuleDecision) algorithm.Kind { return algorithm.Of(d.Limit().Algorithm()).Kind }

// serverOf returns the server with the state of a key, in a world that is no Ring. In a Cluster the
// slot of the key's name decides (docs/redis.md).
func (w *World) serverOf(of account, kind algorithm.Kind) *Server {
	if w.topology != Cluster {
		return w.servers[0]
	}
	mark := [...]string{
		algorithm.Rates: "=", algorithm.Bans: "!", algorithm.Values: "~", algorithm.Held: "+",
	}[kind]
	name := "weir:" + of.scope + mark + of.key
	return w.servers[int(slot.Of(name))*len(w.servers)/slot.Slots]
}

// source returns an independent source of random numbers, so that the draws of one user change
// nothing for another.
func (w *World) source() *rand.Rand {
	w.mu.Lock()
	defer w.mu.Unlock()
	return rand.New(rand.NewPCG(w.random.Uint64(), w.random.Uint64()))
}

// age returns how old the world is.
func (w *World) age() time.Duration { return time.Since(w.begun) }

// path returns the network between a process and a server.
func (w *World) path(p *Process, s *Server) *path {
	for _, path := range w.allPaths() {
		if path.process == p && path.server == s {
			return path
		}
	}
	path := &path{process: p, server: s, there: &route{random: w.source()},
		back: &route{random: w.source()}}
	path.there.latency, path.back.latency = near, near
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paths = append(w.paths, path)
	return path
}

func (w *World) allPaths() []*path {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*path(nil), w.paths...)
}

func (w *World) pathsTo(s *Server) (found []*path) {
	for _, p := range w.allPaths() {
		if p.server == s {
			found = append(found, p)
		}
	}
	return found
}

func (w *World) pathsOf(process *Process) (found []*path) {
	for _, p := range w.allPaths() {
		if p.process == process {
			found = append(found, p)
		}
	}
	return found
}

// slots returns the slots of each server of a Cluster.
func (w *World) slots() (slots []redis.ClusterSlot) {
	n := len(w.servers)
	for i, s := range w.servers {
		slots = append(slots, redis.ClusterSlot{
			Start: i * slot.Slots / n, End: (i+1)*slot.Slots/n - 1,
			Nodes: []redis.ClusterNode{{Addr: s.name}},
		})
	}
	return slots
}

// Close ends the world, and reports the broken laws.
func (w *World) Close() {
	w.end()
	for _, law := range w.broken {
		w.t.Error(law)
	}
}

// process returns the running process of a number.
func (w *World) process(number int) *Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[number]
}

// end waits until the consequences of faults are over, ends all processes and servers, and checks
// the laws.
func (w *World) end() {
	for !w.laws.quiet() {
		time.Sleep(time.Second)
	}
	time.Sleep(time.Second) // with several servers, units of a denied request return after its answer
	quiet := w.laws.quiet()
	var killed []*Process
	for _, p := range w.all {
		if p.dead() {
			killed = append(killed, p)
		} else if quiet {
			endings.Await(w.t.Context(), p.backend)
		}
	}
	if i := slices.IndexFunc(w.all, func(p *Process) bool { return !p.closed }); quiet && i >= 0 {
		w.laws.checkSpending(w.all[i])
		w.laws.look(w.all[i])
	}
	for _, p := range w.all {
		p.Stop()
	}
	if len(killed) > 0 {
		// after a step back this is enough, since laws.look has looked
		time.Sleep(HoldTime*5/4 + time.Second)
	}
	for _, s := range w.servers {
		if n := s.held(); n > 0 && quiet {
			w.breaks(fmt.Sprintf("%s holds %d units, and all requests have ended", s.name, n))
		}
	}
	for _, s := range w.servers {
		if redis := s.listener(); redis != nil {
			redis.Close()
		}
	}
	time.Sleep(2 * time.Second) // a client that cannot connect tries each second until it is closed
	w.laws.check()
}

// Broken returns the laws broken so far.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.broken...)
}

func (w *World) breaks(law string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) < 10 {
		w.broken = append(w.broken, law)
	}
}
