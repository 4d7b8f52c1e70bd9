// Command twins compares two versions of package memory in one process. It compiles only where
// twins.sh has put the earlier version.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	before "github.com/weir-go/weir/internal/before/memory"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	now "github.com/weir-go/weir/memory"
)

// turn is the number of operations of one version before the other one's turn.
const turn = 400

// version runs operations of one case.
type version func()

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil || rounds < 4 {
		fmt.Fprintln(os.Stderr, "twins: the number of rounds must be 4 or more")
		os.Exit(2)
	}
	fmt.Println("| now / before | of the 2nd percentile | of the 25th | of the median | ns now |")
	fmt.Println("|---|--:|--:|--:|--:|")
	for _, c := range cases() {
		c.compare(rounds)
	}
}

type comparison struct {
	name        string
	goroutines  int
	now, before func() version // called once for each goroutine
}

func cases() (list []comparison) {
	const all1e9 = 1_000_000_000
	day := limits.PerDay(all1e9)
	single := []struct {
		name  string
		limit limits.Limit
	}{
		{"bucket", limits.TokenBucket(day, all1e9)},
		{"bucket with fractions",
			limits.TokenBucket(limits.Per(999_999_937, 24*time.Hour), all1e9)},
		{"leaky queue", limits.LeakyQueue(day, all1e9)},
		{"fixed window", limits.FixedWindow(day)},
		{"sliding window", limits.SlidingWindow(day)},
		{"anchored window", limits.AnchoredWindow(day)},
		{"calendar", limits.Calendar(all1e9, limits.Day)},
		{"sliding log", limits.SlidingLog(limits.Per(10_000, time.Millisecond))},
		{"bucket, denied", limits.TokenBucket(limits.PerDay(1), 1)},
		{"fixed window, denied", limits.FixedWindow(limits.PerDay(1))},
		{"sliding window, denied", limits.SlidingWindow(limits.PerDay(1))},
		{"sliding log, denied", limits.SlidingLog(limits.PerDay(1))},
		{"ban, denied", limits.Ban(limits.PerDay(1), 24*time.Hour)},
	}
	for _, s := range single {
		charge := backends.Charge{Scope: "s", Key: "key", Limit: s.limit, Cost: 1}
		list = append(list, takes(s.name, 1, charge))
	}
	for _, s := range single[:5] {
		list = append(list,
			takes(s.name+", 2 goroutines", 2,
				backends.Charge{Scope: "s", Key: "key", Limit: s.limit, Cost: 1}))
	}
	three := []backends.Charge{
		{Scope: "a", Key: "key", Limit: single[0].limit, Cost: 1},
		{Scope: "b", Key: "key", Limit: single[3].limit, Cost: 1},
		{Scope: "c", Key: "key", Limit: single[4].limit, Cost: 1},
	}
	list = append(list, takes("three charges", 1, three...))
	for i, name := range []string{"bucket, Limiter", "", "", "", "sliding window, Limiter"} {
		if name != "" {
			list = append(list, bound(name, single[i].limit))
		}
	}
	for _, goroutines := range []int{1, 2} {
		name := fmt.Sprintf("a million keys, %d goroutines", goroutines)
		list = append(list, keys(name, 1_000_000, 1<<21, goroutines, single[4].limit))
	}
	return append(list, keys("flood of new keys", 1<<40, 1<<16, 1, single[4].limit))
}

type backend interface {
	Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error
}

func takes(name string, goroutines int, charges ...backends.Charge) comparison {
	make := func(b backend) func() version {
		return func() version {
			out := make([]limits.Decision, len(charges))
			mine := slices.Clone(charges)
			ctx := context.Background()
			return func() {
				for range turn {
					if err := b.Take(ctx, mine, out); err != nil {
						panic(err)
					}
				}
			}
		}
	}
	return comparison{
		name, goroutines, make(now.New(now.Options{})), make(before.New(before.Options{})),
	}
}

type limiter interface {
	TakeInto(d *limits.Decision, key string, n int64) error
}

func bound(name string, limit limits.Limit) comparison {
	make := func(l limiter, err error) func() version {
		if err != nil {
			panic(err)
		}
		return func() version {
			var d limits.Decision
			return func() {
				for range turn {
					if err := l.TakeInto(&d, "key", 1); err != nil {
						panic(err)
					}
				}
			}
		}
	}
	a, err := now.New(now.Options{}).Bind("s", limit)
	b, errBefore := before.New(before.Options{}).Bind("s", limit)
	return comparison{name, 1, make(a, err), make(b, errBefore)}
}

// keys takes from keys one after the other, in an order without a pattern.
func keys(name string, count uint64, maxKeys, goroutines int, limit limits.Limit) comparison {
	make := func(b backend) func() version {
		next := uint64(0)
		return func() version {
			next++
			x := next << 32
			charges, out := []backends.Charge{{Scope: "s", Limit: limit, Cost: 1}},
				make([]limits.Decision, 1)
			ctx := context.Background()
			var text [20]byte
			return func() {
				for range turn {
					x += 0x9e3779b97f4a7c15
					charges[0].Key = string(strconv.AppendUint(text[:0], (x>>20)%count, 10))
					if err := b.Take(ctx, charges, out); err != nil {
						panic(err)
					}
				}
			}
		}
	}
	a, b := now.New(now.Options{MaxKeys: maxKeys}), before.New(before.Options{MaxKeys: maxKeys})
	return comparison{name, goroutines, make(a), make(b)}
}

// compare runs both versions in turns and prints ratios of their times.
func (c *comparison) compare(rounds int) {
	var versions [2][]version
	for range c.goroutines {
		versions[0], versions[1] = append(versions[0], c.now()), append(versions[1], c.before())
	}
	var times [2][]time.Duration
	for round := range 2 * (rounds + rounds/4) {
		which := round % 2
		var wg sync.WaitGroup
		begun := time.Now()
		for _, v := range versions[which][1:] {
			wg.Go(v)
		}
		versions[which][0]()
		wg.Wait()
		if round >= rounds/2 { // the first half warms up
			times[which] = append(times[which], time.Since(begun))
		}
	}
	ratio := func(percent int) float64 {
		return float64(at(times[0], percent)) / float64(at(times[1], percent))
	}
	nanoseconds := float64(at(times[0], 2)) / turn
	fmt.Printf("| %s | %.3f | %.3f | %.3f | %.0f |\n", c.name, ratio(2), ratio(25), ratio(50),
		nanoseconds)
}

func at(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[len(times)*percent/100]
}
