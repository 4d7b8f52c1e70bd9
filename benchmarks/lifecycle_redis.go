package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/inflight"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/benchmarks/workload"
)

// lifecycleRedisLoads are the loads of the tables of Redis.
var lifecycleRedisLoads = []struct {
	head       string
	held       int   // number held on one key; 0: all keys, nothing held
	goroutines []int // for the readings of requests per second
}{
	{table.Number(redisKeys) + " keys", 0, redisGoroutines},
	{table.Number(lifecycleFew) + " held", lifecycleFew, []int{16}},
	{table.Number(inflight.Many) + " held", inflight.Many, []int{16}},
}

// A reading of the cost of starts and ends for the server consists of one lot of starts, one after
// the other, and then one lot of ends.
const (
	lifecycleLot  = 50
	lifecycleLots = 8 // per turn and load
)

// lifecycleRunner is a runner that is set up, with its readings.
type lifecycleRunner struct {
	remote.Runner
	runs     remote.Runs
	started  atomic.Int64
	commands remote.Commands

	starts, ends [][]float64   // µs of the server, for each load
	perSecond    [][][]float64 // for each load and number of goroutines
}

// reportLifecycleRedis prints the cost of starts and ends of requests for one local redis-server,
// and their number per second. All runners take turns in this process, since each needs little of
// it.
func reportLifecycleRedis(rounds int) error {
	server, err := remote.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr, PoolSize: 128, ContextTimeoutEnabled: true,
	})
	defer client.Close()

	runners, err := openRunners(server, client)
	if err != nil {
		return err
	}
	all := workload.Uniform(redisKeys)
	for turn := range rounds * redisTurns {
		progress("lifecycle, Redis: turn %d of %d", turn+1, rounds*redisTurns)
		for load := range lifecycleRedisLoads {
			sequence := all
			if held := lifecycleRedisLoads[load].held; held > 0 {
				sequence = workload.Of(heldKey(held))
			}
			reading := func(read func(*lifecycleRunner) error) error {
				for i := range runners {
					r := runners[(i+turn)%len(runners)]
					if err := read(r); err != nil {
						return fmt.Errorf("lifecycle, Redis, %s: %w", r.Name, err)
					}
				}
				return nil
			}
			for i := range lifecycleLots {
				at := (turn*lifecycleLots + i) * 7919
				if err := reading(func(r *lifecycleRunner) error {
					return r.readServer(server, client, load, sequence, at)
				}); err != nil {
					return err
				}
			}
			if err := reading(func(r *lifecycleRunner) error {
				return r.readPerSecond(load, sequence, turn)
			}); err != nil {
				return err
			}
		}
	}
	progress("")
	printLifecycleServer(runners)
	printLifecyclePerSecond(runners)
	return nil
}

// heldKey is the key that holds the given number of places.
func heldKey(held int) string { return fmt.Sprintf("held-%d", held) }

// openRunners sets up all runners and their held requests.
func openRunners(server *remote.Server, client *redis.Client) ([]*lifecycleRunner, error) {
	ctx := context.Background()
	var runners []*lifecycleRunner
	for _, c := range remote.Runners() {
		progress("lifecycle, Redis: setting up %s", c.Name)
		r := &lifecycleRunner{
			Runner: c, starts: make([][]float64, len(lifecycleRedisLoads)),
			ends: make([][]float64, len(lifecycleRedisLoads)),
		}
		for _, load := range lifecycleRedisLoads {
			r.perSecond = append(r.perSecond, make([][]float64, len(load.goroutines)))
		}
		err := r.open(ctx, server, client)
		if err != nil {
			return nil, fmt.Errorf("lifecycle, Redis, %s: %w", r.Name, err)
		}
		runners = append(runners, r)
	}
	return runners, nil
}

func (r *lifecycleRunner) open(
	ctx context.Context, server *remote.Server, client *redis.Client,
) (err error) {
	if r.runs, err = r.Open(client, inflight.AtOnce); err != nil {
		return err
	}
	few := func() error { return r.lot(ctx, workload.One(), 0, func() error { return nil }) }
	if err := few(); err != nil { // loads the scripts into the server
		return err
	}
	if r.commands, err = server.CommandsOf(ctx, client, few); err != nil {
		return err
	}
	for _, load := range lifecycleRedisLoads {
		if err := r.runs.Hold(ctx, heldKey(load.held), load.held); err != nil {
			return err
		}
	}
	return nil
}

// lot starts some requests one after the other and then ends them, waiting for each. It calls
// between before, between and after the two parts.
func (r *lifecycleRunner) lot(
	ctx context.Context, sequence *workload.Sequence, at int, between func() error,
) error {
	if err := between(); err != nil {
		return err
	}
	var ends []func()
	for i := range lifecycleLot {
		end, err := r.runs.Start(ctx, sequence.Key((at+i)%sequence.Len()))
		if err != nil {
			return err
		}
		r.started.Add(1)
		ends = append(ends, end)
	}
	if err := between(); err != nil {
		return err
	}
	ended := r.runs.Ended()
	for _, end := range ends {
		next := ended.Count() + 1
		end()
		if err := ended.Wait(next); err != nil {
			return err
		}
	}
	return between()
}

// readServer takes a reading of the time of the server for one lot.
func (r *lifecycleRunner) readServer(
	server *remote.Server, client *redis.Client, load int, sequence *workload.Sequence, at int,
) error {
	ctx := context.Background()
	var micros []float64
	err := r.lot(ctx, sequence, at, func() error {
		m, err := server.Micros(ctx, client, r.commands)
		micros = append(micros, m)
		return err
	})
	if err != nil {
		return err
	}
	r.starts[load] = append(r.starts[load], (micros[1]-micros[0])/lifecycleLot)
	r.ends[load] = append(r.ends[load], (micros[2]-micros[1])/lifecycleLot)
	return nil
}

// readPerSecond takes a reading of each number of goroutines.
func (r *lifecycleRunner) readPerSecond(load int, sequence *workload.Sequence, turn int) error {
	ended := r.runs.Ended()
	for i, goroutines := range lifecycleRedisLoads[load].goroutines {
		rate, err := perSecond(r.startAndEnd, ended.Carried, sequence, goroutines, turn)
		if err == nil {
			err = ended.Wait(r.started.Load()) // ends must not run into the next reading
		}
		if err != nil {
			return err
		}
		r.perSecond[load][i] = append(r.perSecond[load][i], rate)
	}
	return nil
}

// startAndEnd does not wait until Redis knows the end, unless the contestant does.
func (r *lifecycleRunner) startAndEnd(ctx context.Context, key string) error {
	end, err := r.runs.Start(ctx, key)
	if err != nil {
		return err
	}
	r.started.Add(1)
	end()
	return nil
}
