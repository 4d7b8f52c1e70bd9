package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/benchmarks/workload"
)

// redisGoroutines are the columns of the group redis.
var redisGoroutines = []int{1, 16, 128}

const (
	redisKeys    = 100_000
	redisTurns   = 4 // for each round
	redisReading = 120 * time.Millisecond
	redisWarmUp  = 20 * time.Millisecond
)

// reportRedis prints the decisions per second of each contestant through one local redis-server,
// which shares the processors with the clients. All take turns in this process, since each needs
// little of it.
func reportRedis(rounds int) error {
	server, err := remote.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr, PoolSize: 128, ContextTimeoutEnabled: true,
	})
	defer client.Close()

	contestants := remote.Contestants()
	decide := make([]remote.Decide, len(contestants))
	for i, c := range contestants {
		if decide[i], err = c.Open(client); err != nil {
			return fmt.Errorf("redis, %s: %w", c.Name, err)
		}
	}
	perSecond := make(map[string][][]float64)
	sequence := workload.Uniform(redisKeys)
	for round := range rounds * redisTurns {
		progress("redis: turn %d of %d", round+1, rounds*redisTurns)
		for column, goroutines := range redisGoroutines {
			for i := range contestants {
				at := (i + round) % len(contestants)
				name := contestants[at].Name
				rate, err := decisionsPerSecond(decide[at], sequence, goroutines, round)
				if err != nil {
					return fmt.Errorf("redis, %s: %w", name, err)
				}
				if perSecond[name] == nil {
					perSecond[name] = make([][]float64, len(redisGoroutines))
				}
				perSecond[name][column] = append(perSecond[name][column], rate)
			}
		}
	}
	progress("")
	printRedis(contestants, perSecond)
	return reportLocal(client, sequence, rounds)
}

// reportLocal prints the times of decisions that Redis does not make.
func reportLocal(client *redis.Client, sequence *workload.Sequence, rounds int) error {
	plain, cached, err := remote.Spent(client)
	if err != nil {
		return err
	}
	dead, err := remote.Dead()
	if err != nil {
		return err
	}
	var of [3][]float64
	for round := range rounds {
		for i, decide := range []remote.Decide{plain, cached, dead} {
			rate, err := decisionsPerSecond(decide, sequence, 1, round)
			if err != nil {
				return err
			}
			of[i] = append(of[i], rate)
		}
	}
	rate := func(i int) float64 { return measure.Median(of[i]) }
	fmt.Printf("## redis: one goroutine, decisions that Redis need not or cannot make\n\n")
	t := table.Table{Heads: []string{"", "decisions per second", "target"}}
	t.Add("a denied key, asked for in Redis", table.Number(rate(0)))
	t.Add("a denied key, from the denial cache", table.Number(rate(1)),
		fmt.Sprintf("*≥ 20 times as many* %s", table.Mark(rate(1) >= 20*rate(0))))
	t.Add("Redis dead, the breaker open", table.Number(rate(2)),
		fmt.Sprintf("*≤ 2 µs each* %s", table.Mark(rate(2) >= 500_000)))
	t.Print(os.Stdout)
	return nil
}

// decisionsPerSecond takes one reading: goroutines decide keys, each starting elsewhere in the
// sequence.
func decisionsPerSecond(
	decide remote.Decide, sequence *workload.Sequence, goroutines, round int,
) (float64, error) {
	var done atomic.Int64
	return perSecond(func(ctx context.Context, key string) error {
		err := decide(ctx, key)
		if err == nil {
			done.Add(1)
		}
		return err
	}, done.Load, sequence, goroutines, round)
}

// perSecond takes one reading: goroutines call do with keys, each starting elsewhere in the
// sequence. It returns the increase of done per second.
func perSecond(
	do func(context.Context, string) error, done func() int64, sequence *workload.Sequence,
	goroutines, round int,
) (float64, error) {
	ctx := context.Background()
	var (
		ended   atomic.Bool
		failure atomic.Pointer[error]
		wg      sync.WaitGroup
	)
	for g := range goroutines {
		wg.Go(func() {
			at := (g*sequence.Len()/goroutines + round*7919) % sequence.Len()
			for !ended.Load() {
				if err := do(ctx, sequence.Key(at)); err != nil {
					failure.Store(&err)
					return
				}
				if at++; at == sequence.Len() {
					at = 0
				}
			}
		})
	}
	time.Sleep(redisWarmUp)
	from, start := done(), time.Now()
	time.Sleep(redisReading)
	rate := float64(done()-from) / time.Since(start).Seconds()
	ended.Store(true)
	wg.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return rate, nil
}

func printRedis(contestants []remote.Contestant, perSecond map[string][][]float64) {
	heads := []string{""}
	for _, n := range redisGoroutines {
		heads = append(heads, fmt.Sprintf("%d goroutines", n))
	}
	heads[1] = "1 goroutine"
	fmt.Printf("## redis: decisions per second through one redis-server on the same processors\n\n")
	t := table.Table{Heads: heads}
	for _, c := range contestants {
		row := []string{c.Name}
		for column := range redisGoroutines {
			row = append(row, table.Number(measure.Median(perSecond[c.Name][column])))
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)

	fmt.Printf("## redis: as a share of what each is compared with, and whether that is on " +
		"target\n\n")
	t = table.Table{Heads: append(heads, "of")}
	for _, c := range contestants {
		for _, against := range c.Against {
			row := []string{c.Name}
			for column := range redisGoroutines {
				// Compare turn by turn, since noise of a shared machine differs between turns.
				var shares []float64
				for i, rate := range perSecond[c.Name][column] {
					shares = append(shares, rate/perSecond[against.With][column][i])
				}
				share := measure.Median(shares)
				cell := fmt.Sprintf("%.2f", share)
				if target := against.Targets[column]; target > 0 {
					cell += fmt.Sprintf(" %s (≥ %.2f)", table.Mark(share >= target), target)
				}
				row = append(row, cell)
			}
			t.Add(append(row, against.With)...)
		}
	}
	t.Print(os.Stdout)
}
