package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/benchmarks/workload"
)

const (
	leaseKeys       = 1_000_000
	leaseGoroutines = 128
)

// leaseLoads are the columns of the group lease, with the factors that weir must reach relative to
// redis_rate and relative to itself without leases.
var leaseLoads = []struct {
	head             string
	sequence         func() *workload.Sequence
	ofRate, ofDirect float64
}{
	{"one key", workload.One, 20, 0},
	{"Zipf, 1,000,000 keys", func() *workload.Sequence { return workload.Zipf(leaseKeys) }, 2.5, 0},
	{"uniform, 1,000,000 keys", func() *workload.Sequence { return workload.Uniform(leaseKeys) }, 0,
		0.97},
}

// leaseReading is the reading of one contestant under one load in one turn.
type leaseReading struct{ perSecond, commands, p99 float64 }

// reportLease prints the decisions per second of 128 goroutines through one local redis-server,
// with leases and without.
func reportLease(rounds int) error {
	server, err := remote.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr, PoolSize: 128, ContextTimeoutEnabled: true,
	})
	defer client.Close()
	contestants := remote.LeaseContestants()
	readings := make(map[string][][]leaseReading) // by name, then by load
	for _, c := range contestants {
		readings[c.Name] = make([][]leaseReading, len(leaseLoads))
	}
	for load, l := range leaseLoads {
		sequence := l.sequence()
		decide := make([]remote.Decide, len(contestants))
		for i, c := range contestants {
			if decide[i], err = c.Open(client); err != nil {
				return fmt.Errorf("lease, %s: %w", c.Name, err)
			}
		}
		for round := range rounds * redisTurns {
			progress("lease: %s, turn %d of %d", l.head, round+1, rounds*redisTurns)
			for i := range contestants {
				at := (i + round) % len(contestants)
				r, err := readLease(server, client, decide[at], sequence, round)
				if err != nil {
					return fmt.Errorf("lease, %s: %w", contestants[at].Name, err)
				}
				name := contestants[at].Name
				readings[name][load] = append(readings[name][load], r)
			}
		}
	}
	progress("")
	printLease(contestants, readings)
	return nil
}

// readLease reads one contestant: its decisions per second, and then the time of one decision. For
// the latter, goroutines pause between decisions, so that they do not wait for each other.
func readLease(
	server *remote.Server, client *redis.Client, decide remote.Decide, sequence *workload.Sequence,
	round int,
) (r leaseReading, err error) {
	ctx := context.Background()
	before, err := server.Calls(ctx, client)
	if err != nil {
		return r, err
	}
	var done atomic.Int64
	r.perSecond, err = perSecond(func(ctx context.Context, key string) error {
		err := decide(ctx, key)
		if err == nil {
			done.Add(1)
		}
		return err
	}, done.Load, sequence, leaseGoroutines, round)
	if err != nil {
		return r, err
	}
	after, err := server.Calls(ctx, client)
	if err != nil {
		return r, err
	}
	r.commands = (after - before) / float64(max(1, done.Load()))
	r.p99, err = pausing(decide, sequence, round)
	return r, err
}

// leasePause is the pause of a goroutine between two timed decisions.
const leasePause = 10 * time.Millisecond

// pausing returns the 99th percentile of a decision, in microseconds.
func pausing(decide remote.Decide, sequence *workload.Sequence, round int) (float64, error) {
	const each = 40
	var mu sync.Mutex
	var wg sync.WaitGroup
	var times []float64
	var failure error
	for g := range leaseGoroutines {
		wg.Go(func() {
			time.Sleep(leasePause * time.Duration(g) / leaseGoroutines)
			for i := range each {
				at := (g*sequence.Len()/leaseGoroutines + round*7919 + i) % sequence.Len()
				start := time.Now()
				err := decide(context.Background(), sequence.Key(at))
				took := float64(time.Since(start).Nanoseconds()) / 1000
				mu.Lock()
				if err != nil {
					failure = err
				}
				if times = append(times, took); i < each/4 { // until keys are leased
					times = times[:len(times)-1]
				}
				mu.Unlock()
				time.Sleep(leasePause)
			}
		})
	}
	wg.Wait()
	slices.Sort(times)
	return times[len(times)*99/100], failure
}

func printLease(contestants []remote.Contestant, readings map[string][][]leaseReading) {
	median := func(name string, load int, of func(leaseReading) float64) float64 {
		var all []float64
		for _, r := range readings[name][load] {
			all = append(all, of(r))
		}
		return measure.Median(all)
	}
	heads := []string{""}
	for _, l := range leaseLoads {
		heads = append(heads, l.head)
	}
	for _, what := range []struct {
		title string
		of    func(leaseReading) float64
		text  func(float64) string
	}{
		{"decisions per second, 128 goroutines",
			func(r leaseReading) float64 { return r.perSecond }, table.Number},
		{"script calls per decision", func(r leaseReading) float64 { return r.commands },
			func(x float64) string { return fmt.Sprintf("%.5f", x) }},
		{"99th percentile of a decision, µs, 12,800 a second",
			func(r leaseReading) float64 { return r.p99 },
			func(x float64) string { return fmt.Sprintf("%.1f", x) }},
	} {
		fmt.Printf("## lease: %s\n\n", what.title)
		t := table.Table{Heads: heads}
		for _, c := range contestants {
			row := []string{c.Name}
			for load := range leaseLoads {
				row = append(row, what.text(median(c.Name, load, what.of)))
			}
			t.Add(row...)
		}
		t.Print(os.Stdout)
	}
	fmt.Printf("## lease: how many times as many decisions as\n\n")
	t := table.Table{Heads: heads}
	for _, with := range []string{remote.Rate, remote.Direct} {
		row := []string{with}
		for load, l := range leaseLoads {
			var shares []float64
			for i, r := range readings[remote.Leased][load] {
				shares = append(shares, r.perSecond/readings[with][load][i].perSecond)
			}
			target := l.ofRate
			if with == remote.Direct {
				target = l.ofDirect
			}
			cell := fmt.Sprintf("%.2f", measure.Median(shares))
			if target > 0 {
				cell += fmt.Sprintf(" *≥ %v* %s", target,
					table.Mark(measure.Median(shares) >= target))
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
}
