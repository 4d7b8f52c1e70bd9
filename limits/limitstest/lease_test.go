package limitstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// Instances with leases share a backend across a network that delays, loses and fails, and
// die. All that they admit, merged by time, has to fit the limit of the user, in rational
// numbers: whoever charges first and spends later under a tighter limit admits nothing more.
func TestLeasesAdmitNothingBeyondTheLimit(t *testing.T) {
	for _, limit := range leasedLimits {
		t.Run(limit.String(), func(t *testing.T) {
			total, seed := leaseCounts{}, testrun.Seed(t)
			for i := range uint64(leaseRuns) {
				got := leaseRun{limit: limit, seed: seed + i/2, together: i%2 == 0}.run(t)
				if got.over > 0 {
					t.Fatalf("run %d: %d units are admitted beyond the limit (%+v)", i, got.over, got)
				}
				total.add(got)
			}
			t.Logf("%+v", total)
			if total.leased == 0 || total.direct == 0 || total.denied == 0 || total.returned == 0 {
				t.Errorf("the runs show too little: %+v", total)
			}
		})
	}
}

// Each of these is a cache without one of its corrections.
func TestLeasesWithoutACorrectionAreFoundOut(t *testing.T) {
	for name, m := range leaseMutants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(leaseRuns) {
				m.seed, m.together = seed, true
				if got := m.run(t); got.over > 0 {
					t.Logf("seed %d: %+v", seed, got)
					return
				}
			}
			t.Error("nobody notices")
		})
	}
}

const leaseRuns = 12

var leasedLimits = []limits.Limit{
	limits.TokenBucket(limits.PerSecond(1000), 1000),
	limits.LeakyBucket(limits.PerSecond(3000), 700),
	limits.FixedWindow(limits.PerSecond(1000)),
	limits.SlidingWindow(limits.PerSecond(1000)),
	limits.SlidingLog(limits.PerSecond(700)),
}

var leaseMutants = map[string]leaseRun{
	"a bucket keeps its burst": {
		limit: limits.TokenBucket(limits.PerSecond(1000), 1000),
		asked: func(limit limits.Limit) limits.Limit { return limit },
	},
	"a bucket's burst is lower by half a lease, so units are spent after the term": {
		limit: limits.TokenBucket(limits.PerSecond(1000), 1000),
		asked: func(limit limits.Limit) limits.Limit {
			_, lease := remote.Leased(limit, time.Second)
			tight, _ := remote.Leased(limit, lease/2)
			return tight
		},
	},
	"a log keeps its period": {
		limit: limits.SlidingLog(limits.PerSecond(700)),
		asked: func(limit limits.Limit) limits.Limit { return limit },
	},
	"a log's period is longer by half a lease, so units are spent after the term": {
		limit: limits.SlidingLog(limits.PerSecond(700)),
		asked: func(limit limits.Limit) limits.Limit {
			_, lease := remote.Leased(limit, time.Second)
			tight, _ := remote.Leased(limit, lease/2)
			return tight
		},
	},
	"units of a window are spent in the next": {limit: limits.FixedWindow(limits.PerSecond(1000)),
		early: 500 * time.Millisecond},
}

// leaseRun is a run of several instances.
type leaseRun struct {
	limit limits.Limit
	seed  uint64
	asked func(limits.Limit) limits.Limit // a mutant: what the backend is asked for; nil: what it should be
	early time.Duration                   // a mutant: by how much instants of the backend are too early

	// Instances take blocks together, spend them as late as they may, and everything else
	// with them: the worst that can be.
	together bool
}

// The worst cycle: all take blocks when the key is fresh, or before a window ends, some
// others drain what is left, all spend at the end of the lease, and again when what was
// charged first counts no more.
func (r leaseRun) steps(lease time.Duration, now time.Time, drained bool) (steps []leaseStep) {
	p := r.limit.Rate().Period
	at := 3 * p
	if r.limit.Algorithm() == limits.AlgorithmFixedWindow || r.limit.Algorithm() == limits.AlgorithmSlidingWindow {
		at = now.Truncate(p).Add(3*p - lease*14/10).Sub(now)
	}
	steps = append(steps, leaseStep{at, 9, lease / 10})
	if at += lease * 9 / 10; drained {
		steps = append(steps, leaseStep{at, 0, 0})
	}
	for i := range 6 {
		steps = append(steps, leaseStep{at + lease*7/10 + time.Duration(i)*lease/30, -1, 0})
	}
	for i := range 30 {
		steps = append(steps, leaseStep{at + p + time.Duration(i)*lease/20, -1, 0})
	}
	return steps
}

// leaseStep is what comes after a time: one worker of each instance asks a number of times,
// with pauses; or, below 0, all of them ask until they are denied; or, 0, all of one
// instance do.
type leaseStep struct {
	after time.Duration
	asks  int
	pause time.Duration
}

type leaseCounts struct{ leased, direct, denied, failed, returned, over int64 }

func (c *leaseCounts) add(d leaseCounts) {
	c.leased, c.direct, c.denied, c.failed = c.leased+d.leased, c.direct+d.direct, c.denied+d.denied, c.failed+d.failed
	c.returned, c.over = c.returned+d.returned, c.over+d.over
}

// leaseSpend is units that an instance has admitted.
type leaseSpend struct{ at, units int64 }

func (r leaseRun) run(t *testing.T) (counts leaseCounts) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(r.seed, 14))
		shared := memory.MustNew(memory.Options{})
		_, lease := remote.Leased(r.limit, time.Second)
		var mu sync.Mutex
		var admitted []*leaseSpend
		var all sync.WaitGroup
		end := time.Now().Add(40 * lease)
		drained := random.IntN(2) == 0
		for instance := range 2 + random.IntN(5) {
			n := &leaseNetwork{run: r, inner: shared, lease: lease, counts: &counts, mu: &mu,
				random: rand.New(rand.NewPCG(random.Uint64(), 0))}
			n.tight, _ = remote.Leased(r.limit, time.Second)
			n.faults, n.delay = random.IntN(3) > 0, time.Millisecond
			if r.together {
				n.faults, n.delay = n.faults && r.asked == nil && r.early == 0, lease/200
			}
			cache := remote.MustNewLeaseCache(n, remote.LeaseOptions{})
			dies := end
			if random.IntN(3) == 0 && !r.together {
				dies = time.Now().Add(time.Duration(random.Int64N(int64(40 * lease))))
			}
			if r.together {
				dies = time.Now().Add(time.Hour)
			}
			n.dies = dies
			lasts := []time.Duration{0, 0, 100 * time.Millisecond}[random.IntN(3)]
			for worker := range 6 {
				w := leaseWorker{
					cache: cache, limit: r.limit, lease: lease, until: dies, lasts: lasts,
					random: rand.New(rand.NewPCG(random.Uint64(), 1)), mu: &mu, counts: &counts, admitted: &admitted,
				}
				if !r.together {
					all.Go(w.work)
					continue
				}
				w.lasts = 0
				w.alone = true
				start := time.Now()
				all.Go(func() {
					for cycle := range 3 {
						start := start.Add(time.Duration(cycle) * 6 * r.limit.Rate().Period)
						for _, step := range r.steps(lease, start, drained) {
							if step.asks > 0 && worker == 0 || step.asks == 0 && instance == 0 || step.asks < 0 {
								time.Sleep(time.Until(start.Add(step.after)))
								w.do(step)
							}
						}
					}
				})
			}
		}
		all.Wait()
		time.Sleep(2 * time.Second) // whatever is held is returned
		synctest.Wait()
		counts.over = beyond(r.limit, admitted)
	})
	return counts
}

// beyond returns how many units of admissions do not fit limit.
func beyond(limit limits.Limit, admitted []*leaseSpend) (over int64) {
	slices.SortStableFunc(admitted, func(a, b *leaseSpend) int { return int(a.at - b.at) })
	u := fresh(limit, 0)
	for _, a := range admitted {
		if a.units == 0 {
			continue
		}
		over = max(over, u.inUse(a.at)+a.units-limit.Burst())
		u = u.plus(a.at, a.units)
	}
	return over
}

// leaseWorker is one goroutine of an instance, which asks quietly, steadily or as fast as
// it can, in turns.
type leaseWorker struct {
	cache    *remote.LeaseCache
	limit    limits.Limit
	lease    time.Duration
	lasts    time.Duration
	alone    bool // there is one rule only
	until    time.Time
	random   *rand.Rand
	mu       *sync.Mutex
	counts   *leaseCounts
	admitted *[]*leaseSpend
}

func (w *leaseWorker) work() {
	for time.Now().Before(w.until) {
		switch w.random.IntN(4) {
		case 0:
			time.Sleep(time.Duration(w.random.Int64N(int64(2 * w.lease))))
		case 1, 2:
			for range 8 + w.random.IntN(20) {
				w.ask()
				time.Sleep(time.Duration(w.random.Int64N(int64(w.lease / 10))))
			}
		default:
			for range 300 {
				if !w.ask() {
					break
				}
			}
			time.Sleep(time.Duration(w.random.Int64N(int64(5 * time.Millisecond))))
		}
	}
}

// do asks as a step says.
func (w *leaseWorker) do(step leaseStep) {
	for range max(0, step.asks) {
		w.ask()
		time.Sleep(step.pause)
	}
	for step.asks <= 0 && w.ask() {
	}
}

// ask has a request decided, and reports whether it was allowed.
func (w *leaseWorker) ask() bool {
	charges := []backends.Charge{{Scope: "s", Key: "k", Limit: w.limit, Cost: 1 + w.random.Int64N(2), Lasts: w.lasts}}
	if !w.alone && w.random.IntN(4) == 0 { // the second rule decides elsewhere, and denies now and then
		charges = append(charges,
			backends.Charge{Scope: "other", Key: "k", Limit: limits.LeakyQueue(limits.PerSecond(300), 50), Cost: 1})
	}
	out := make([]limits.Decision, len(charges))
	err := w.cache.Take(context.Background(), charges, out)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.counts.failed++
		return false
	case !out[0].Allowed || !out[len(out)-1].Allowed:
		w.counts.denied++
		return false
	}
	a := &leaseSpend{at: out[0].At, units: charges[0].Cost}
	w.counts.direct++
	if out[0].Source == limits.SourceLease {
		w.counts.leased++
		w.counts.direct--
		if len(charges) == 1 { // otherwise the units were spent when they were set aside
			a.at = time.Now().UnixMicro()
		}
	}
	*w.admitted = append(*w.admitted, a)
	if w.lasts > 0 && w.random.IntN(2) == 0 {
		e := backends.Ending{Scope: "s", Key: "k", Limit: w.limit, Taken: a.units, Final: w.random.Int64N(a.units + 1),
			Ticket: out[0].Ticket, Lasts: w.lasts}
		after := time.Duration(w.random.Int64N(int64(w.lease)))
		time.AfterFunc(after, func() {
			w.mu.Lock()
			a.units = e.Final
			w.mu.Unlock()
			_ = w.cache.Settle(context.Background(), []backends.Ending{e}, make([]limits.Settlement, 1))
		})
	}
	return true
}

// leaseNetwork is the way of an instance to the backend.
type leaseNetwork struct {
	run    leaseRun
	inner  *memory.Memory
	tight  limits.Limit
	lease  time.Duration
	dies   time.Time
	faults bool
	delay  time.Duration // the longest, as a rule
	mu     *sync.Mutex
	counts *leaseCounts
	random *rand.Rand
}

var errLost = errors.New("lost")

// cross waits as long as a message is under way, and reports whether it arrives.
func (n *leaseNetwork) cross() bool {
	n.mu.Lock()
	delay, arrives := time.Duration(n.random.Int64N(int64(n.delay))), true
	if n.faults {
		switch n.random.IntN(20) {
		case 0:
			arrives = false
		case 1:
			delay = time.Duration(n.random.Int64N(int64(2 * n.lease)))
		}
	}
	n.mu.Unlock()
	time.Sleep(delay)
	return arrives && time.Now().Before(n.dies)
}

// limit returns what a limit is for the backend.
func (n *leaseNetwork) limit(limit limits.Limit) limits.Limit {
	if n.run.asked != nil && limit == n.tight {
		return n.run.asked(n.run.limit)
	}
	return limit
}

func (n *leaseNetwork) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if !n.cross() {
		return errLost
	}
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Limit = n.limit(charges[i].Limit)
	}
	if err := n.inner.Take(ctx, charges, out); err != nil {
		return err
	}
	for i := range out {
		if charges[i].Cost > 2 { // a block
			out[i].At -= n.run.early.Microseconds()
		}
	}
	if !n.cross() {
		return errLost
	}
	return ctx.Err()
}

func (n *leaseNetwork) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	if !n.cross() {
		return errLost
	}
	endings = slices.Clone(endings)
	for i := range endings {
		endings[i].Limit = n.limit(endings[i].Limit)
	}
	if err := n.inner.Settle(ctx, endings, out); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	n.mu.Lock()
	for i := range out {
		n.counts.returned += out[i].Returned
	}
	n.mu.Unlock()
	if !n.cross() {
		return errLost
	}
	return nil
}
