package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/model"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// leaseTrace compares what processes with leases do with the model of docs/proof/leases.pml. Each
// message, and each unit that is spent, is a transition of the model.
type leaseTrace struct {
	limit, tight limits.Limit
	lease        time.Duration
	plant        leaseMistake

	mu     sync.Mutex
	random *rand.Rand
	server *memory.Memory
	model  *model.Leases
	at     int64               // the clock of the model, in microseconds
	blocks map[blockTicket]int // indexes of blocks in the model
	broken []string
	steps  int
	leased int // units of blocks that were spent
	back   int // blocks of which units came back
	unused int // units that requests had not used, and returned to a block

	crashes, flushes int
}

// blockTicket names a block: a process has one request for a block at a time.
type blockTicket struct {
	process int
	ticket  int64
}

type leaseMistake int

const (
	noMistake   leaseMistake = iota
	outlives                 // processes spend units for 20 ms longer
	returnTwice              // units come back twice
)

// passLocked lets the clock of the model catch up.
func (tr *leaseTrace) passLocked() {
	now := time.Now().UnixMicro()
	tr.model.Pass(now - tr.at)
	tr.at = now
}

func (tr *leaseTrace) breaksLocked(err error) {
	if err != nil {
		tr.broken = append(tr.broken, fmt.Sprintf("at %v: %v", time.UnixMicro(tr.at).UTC(), err))
	}
}

// does is one transition of the block i.
func (tr *leaseTrace) does(i int, transition func(p *model.Lease)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.passLocked()
	tr.steps++
	transition(&tr.model.Leases[i])
	tr.breaksLocked(tr.model.Check())
}

// ask is a request for n units. It returns the index of the block in the model.
func (tr *leaseTrace) ask(process int, n int64) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.passLocked()
	tr.model.Leases = append(tr.model.Leases, model.Lease{Process: process, State: model.Sent, Units: n})
	return len(tr.model.Leases) - 1
}

func (tr *leaseTrace) spendLocked(p *model.Lease, n int64) {
	for range n {
		tr.breaksLocked(tr.model.Spend(p))
	}
}

// leaseProcess is a process with leases, and its way to the server.
type leaseProcess struct {
	*leaseTrace
	number int
	cache  *remote.LeaseCache
	dead   bool // guarded by mu
}

func (tr *leaseTrace) start(number int) *leaseProcess {
	p := &leaseProcess{leaseTrace: tr, number: number}
	p.cache = remote.MustNewLeaseCache(p, remote.LeaseOptions{})
	return p
}

// cross waits as long as a message is under way. It reports whether the message arrives, and
// whether the process is dead by then.
func (p *leaseProcess) cross() (arrives, dead bool) {
	p.mu.Lock()
	most, kind := 2*time.Millisecond, p.random.IntN(20)
	if kind == 1 {
		most = 2 * p.lease
	}
	delay := time.Microsecond + time.Duration(p.random.Int64N(int64(most)))
	p.mu.Unlock()
	time.Sleep(delay)
	p.mu.Lock()
	defer p.mu.Unlock()
	return kind > 0, p.dead
}

// narrow puts the right limit in place of one whose lease is too long.
func (p *leaseProcess) narrow(limit *limits.Limit) {
	if p.plant == outlives {
		*limit = p.tight
	}
}

var errNoAnswer = errors.New("no answer")

// caller is a request, and the units that the request took. Its context carries it.
type caller struct {
	block          int   // the index in the model
	charged, spent int64 // when, by the clock of the model
	returned       int64 // units that return to the block, unless the server is asked
	asked          bool  // the server is asked to refund units
}

type callerKey struct{}

// callerOf returns the request that makes a call, or nil: a process makes the call for itself.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// Take carries a request for a block, or for what a caller needs now, to the server.
func (p *leaseProcess) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	charges = slices.Clone(charges)
	p.narrow(&charges[0].Limit)
	n, own, i := charges[0].Cost, callerOf(ctx), p.number
	isBlock := own == nil
	if isBlock {
		i = p.ask(p.number, n)
	}
	arrives, dead := p.cross()
	if !arrives {
		p.does(i, (*model.Lease).Lose)
		return errNoAnswer
	}
	var err error
	p.does(i, func(b *model.Lease) {
		err = p.server.Take(ctx, charges, out)
		b.State, b.Units = model.Sent, n // perhaps again, after its process has died
		switch fits := p.model.Charge(b); {
		case fits != out[0].Allowed:
			p.breaksLocked(fmt.Errorf("the server allows %d units: %v, the model: %v", n, !fits, fits))
		case !fits:
		case dead:
			b.Lose()
		case isBlock:
			p.blocks[blockTicket{p.number, out[0].Ticket}] = i
		default: // spent when the server decides
			p.model.Answer(b)
			p.spendLocked(b, n)
			*own = caller{block: i, charged: p.model.ChargedAt(b), spent: p.model.ChargedAt(b)}
			b.GiveBack()
		}
	})
	arrives, dead = p.cross()
	switch {
	case !arrives || dead || err != nil:
		if isBlock {
			p.does(i, (*model.Lease).Lose)
		}
		return errors.Join(errNoAnswer, err)
	case isBlock && out[0].Allowed:
		p.does(i, p.model.Answer)
	}
	return nil
}

// Settle carries units that are returned to the server.
func (p *leaseProcess) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	endings = slices.Clone(endings)
	if own := callerOf(ctx); own != nil {
		return p.refund(ctx, own, endings, out)
	}
	var blocks []int
	p.mu.Lock()
	dead := p.dead
	for j, e := range endings {
		p.narrow(&endings[j].Limit)
		i, known := p.blocks[blockTicket{p.number, e.Ticket}]
		if !known {
			p.breaksLocked(errors.New("units of an unknown block come back"))
			continue
		}
		blocks = append(blocks, i)
	}
	p.mu.Unlock()
	if dead || len(blocks) < len(endings) {
		return errNoAnswer
	}
	for j, i := range blocks {
		p.does(i, func(b *model.Lease) {
			if b.State == model.Holding {
				b.GiveBack()
			}
			if n := endings[j].Taken - endings[j].Final; n != b.Back() {
				p.breaksLocked(fmt.Errorf("%d units are returned, and %d are left", n, b.Back()))
			}
		})
	}
	if arrives, _ := p.cross(); !arrives {
		for _, i := range blocks {
			p.does(i, (*model.Lease).LoseBack)
		}
		return errNoAnswer
	}
	p.arriveBack(ctx, blocks, endings, out)
	if p.plant == returnTwice {
		p.arriveBack(ctx, blocks, endings, make([]limits.Settlement, len(out)))
	}
	if arrives, dead := p.cross(); !arrives || dead {
		return errNoAnswer
	}
	return nil
}

// refund carries what one request returns to the server.
func (p *leaseProcess) refund(
	ctx context.Context, own *caller, endings []backends.Ending, out []limits.Settlement,
) error {
	p.does(own.block, func(b *model.Lease) {
		p.model.Return(b, -own.returned, own.spent)
		own.asked = true
	})
	p.narrow(&endings[0].Limit)
	if arrives, dead := p.cross(); !arrives || dead {
		return errNoAnswer
	}
	p.does(own.block, func(b *model.Lease) {
		p.breaksLocked(p.server.Settle(ctx, endings, out))
		n := p.model.Refund(b, endings[0].Taken-endings[0].Final, own.charged, own.spent)
		if n != out[0].Returned {
			p.breaksLocked(fmt.Errorf("the server refunds %d units, the model %d", out[0].Returned, n))
		}
	})
	if arrives, dead := p.cross(); !arrives || dead {
		return errNoAnswer
	}
	return nil
}

func (p *leaseProcess) arriveBack(
	ctx context.Context, blocks []int, endings []backends.Ending, out []limits.Settlement,
) {
	for j, i := range blocks {
		p.does(i, func(b *model.Lease) {
			p.back++
			p.breaksLocked(p.server.Settle(ctx, endings[j:j+1], out[j:j+1]))
			n, err := p.model.ArriveBack(b)
			if p.breaksLocked(err); n != out[j].Returned {
				p.breaksLocked(fmt.Errorf("the server counts %d units fewer, the model %d", out[j].Returned, n))
			}
		})
	}
}

// request decides one request. It reports whether the request was allowed. If own is set, it draws
// whether the request returns units at its end.
func (p *leaseProcess) request(ctx context.Context, cost int64, own *rand.Rand) bool {
	limit := p.limit
	if p.plant == outlives { // a lease of this limit is longer, by a fiftieth of a second
		limit = limits.SlidingLog(limits.Per(limit.Rate().Units, limit.Rate().Period+time.Second))
	}
	out := make([]limits.Decision, 1)
	charges := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Cost: cost}}
	took := new(caller)
	ctx = context.WithValue(ctx, callerKey{}, took)
	if p.cache.Take(ctx, charges, out) != nil || !out[0].Allowed {
		return false
	}
	p.mu.Lock()
	i, known := p.blocks[blockTicket{p.number, out[0].Ticket}]
	dead := p.dead
	p.mu.Unlock()
	if dead {
		return false
	}
	leased := out[0].Source == limits.SourceLease
	if leased {
		if !known {
			i = p.number // which holds nothing: the model refuses to spend
		}
		p.does(i, func(b *model.Lease) {
			p.leased += int(cost)
			p.spendLocked(b, cost)
			*took = caller{block: i, charged: p.model.ChargedAt(b), spent: p.model.Now()}
		})
	}
	// A request that is charged at the instant of a block has its ticket: it may return units to it.
	if alike := known && !leased; own != nil && own.IntN(8) == 0 && !alike {
		time.Sleep(time.Duration(own.Int64N(int64(p.lease))))
		p.settle(ctx, took, backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: cost,
			Final: own.Int64N(cost), Ticket: out[0].Ticket})
	}
	return true
}

// settle is the end of a request that did not use all units. They return to their block or, if that
// is over, to the server.
func (p *leaseProcess) settle(ctx context.Context, took *caller, e backends.Ending) {
	n, dead := e.Taken-e.Final, false
	p.does(took.block, func(b *model.Lease) {
		if dead = p.dead; !dead && p.model.MayReturn(b) { // before another request spends them
			took.returned = n
			p.model.Return(b, n, took.spent)
		}
	})
	if dead {
		return
	}
	_ = p.cache.Settle(ctx, []backends.Ending{e}, make([]limits.Settlement, 1)) // may be lost
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case took.asked:
	case took.returned > 0:
		p.unused += int(n)
	case !p.dead:
		p.breaksLocked(errors.New("units return to a block that is over"))
	}
}

// clients send requests in turns: none, some, or until they are denied.
func (p *leaseProcess) clients(ctx context.Context, own *rand.Rand, until time.Time) {
	isOver := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.dead || !time.Now().Before(until)
	}
	for !isOver() {
		switch own.IntN(8) {
		case 0, 1, 2:
			time.Sleep(time.Duration(own.Int64N(int64(8 * p.lease))))
		case 3:
			for n := 0; n < 300 && !isOver() && p.request(ctx, 1, nil); n++ {
			}
			time.Sleep(time.Duration(own.Int64N(int64(20 * p.lease))))
		default:
			for n := 8 + own.IntN(20); n > 0 && !isOver(); n-- {
				p.request(ctx, 1+own.Int64N(2), own)
				time.Sleep(time.Duration(own.Int64N(int64(p.lease / 8))))
			}
			for range 8 { // some near the end of a lease
				time.Sleep(p.lease/8 + time.Duration(own.Int64N(int64(p.lease/4))))
				if !isOver() {
					p.request(ctx, 1, own)
				}
			}
		}
	}
}

// leasesFollowed has two or three processes with leases spend a limit for a while, compared with
// the model. Messages are late or lost, processes die, and the server loses its data.
func leasesFollowed(t *testing.T, seed uint64, plant leaseMistake) (tr *leaseTrace) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 54))
		period := time.Duration(1+random.IntN(3)) * time.Second
		limit := limits.SlidingLog(limits.Per(400+random.Int64N(800), period))
		tight, lease := remote.Leased(limit, time.Second)
		processes, crashes := 2+random.IntN(2), random.IntN(3)
		tr = &leaseTrace{
			limit: limit, tight: tight, lease: lease, plant: plant, crashes: crashes,
			random: rand.New(rand.NewPCG(random.Uint64(), 1)),
			server: memory.MustNew(memory.Options{}), at: time.Now().UnixMicro(),
			blocks: make(map[blockTicket]int),
			model: &model.Leases{
				Limit: limit.Burst(), Period: period.Microseconds(), Term: lease.Microseconds(),
				Slack: time.Millisecond.Microseconds(),
			},
		}
		until := time.Now().Add(3 * period)
		var all sync.WaitGroup
		var running, started []*leaseProcess
		start := func() *leaseProcess {
			p := tr.start(tr.ask(len(tr.model.Leases), 0)) // what it takes without a block
			tr.does(p.number, (*model.Lease).Lose)
			for range 3 {
				own := rand.New(rand.NewPCG(random.Uint64(), 0))
				all.Go(func() { p.clients(t.Context(), own, until) })
			}
			started = append(started, p)
			return p
		}
		for range processes {
			running = append(running, start())
		}
		for range crashes + random.IntN(2) {
			time.Sleep(time.Duration(random.Int64N(int64(period))))
			if crashes == 0 {
				tr.flushes++
				tr.does(0, func(*model.Lease) {
					tr.server = memory.MustNew(memory.Options{})
					tr.model.Flush()
				})
				continue
			}
			crashes--
			i := random.IntN(processes)
			p := running[i]
			tr.does(p.number, func(*model.Lease) {
				p.dead = true
				tr.model.Crash(p.number)
			})
			running[i] = start()
		}
		all.Wait()
		time.Sleep(3 * time.Second) // whatever is left is returned
		synctest.Wait()
		dead := make(map[int]bool)
		for _, p := range started {
			dead[p.number] = p.dead
		}
		for i := range tr.model.Leases {
			if b := &tr.model.Leases[i]; !dead[b.Process] && b.Unreturned() > 0 {
				tr.breaksLocked(fmt.Errorf("%d units of block %d are never returned", b.Unreturned(), i))
			}
		}
	})
	return tr
}

// TestLeasesFollowTheModel replays what processes did in the model of docs/proof/leases.pml.
func TestLeasesFollowTheModel(t *testing.T) {
	first, all := testrun.Seed(t), leaseTrace{}
	for i := range uint64(testrun.Sized(10, 1000)) {
		tr := leasesFollowed(t, first+i, noMistake)
		if len(tr.broken) > 0 {
			testrun.Replay(t, first+i)
			t.Fatalf("seed %d: %q", first+i, tr.broken[:min(5, len(tr.broken))])
		}
		all.steps, all.leased, all.back = all.steps+tr.steps, all.leased+tr.leased, all.back+tr.back
		all.crashes, all.flushes = all.crashes+tr.crashes, all.flushes+tr.flushes
		all.unused += tr.unused
	}
	t.Logf("%d transitions: %d units of blocks spent, %d not used, %d blocks returned, %d crashes, "+
		"%d flushes", all.steps, all.leased, all.unused, all.back, all.crashes, all.flushes)
	if all.leased == 0 || all.back == 0 || all.unused == 0 {
		t.Error("the traces show no leases")
	}
}

// TestTracesFindPlantedMistakesOfLeases plants the mistakes of docs/proof that processes make.
func TestTracesFindPlantedMistakesOfLeases(t *testing.T) {
	for plant, broken := range map[leaseMistake]string{
		outlives: "spent after the term", returnTwice: "come back a second time",
	} {
		t.Run(broken, func(t *testing.T) {
			for seed := range uint64(5) {
				for _, found := range leasesFollowed(t, seed, plant).broken {
					if strings.Contains(found, broken) {
						t.Log(found)
						return
					}
				}
			}
			t.Error("five traces did not find it")
		})
	}
}
