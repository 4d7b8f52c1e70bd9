package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/benchmarks/workload"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
)

// sized are the limits whose keys are measured. Each remembers what it took for an hour at least.
var sized = []limits.Limit{
	limits.FixedWindow(limits.PerHour(10)),
	limits.SlidingWindow(limits.PerHour(10)),
	limits.AnchoredWindow(limits.PerHour(10)),
	limits.Calendar(10, limits.Month),
	limits.TokenBucket(limits.PerHour(10), 10),
	limits.LeakyBucket(limits.PerHour(10), 10),
	limits.LeakyQueue(limits.PerHour(10), 10),
	limits.Ban(limits.PerHour(10), time.Hour),
	limits.Ban(limits.PerHour(10), time.Hour).Growing(24 * time.Hour),
	limits.Concurrent(10),
	limits.SlidingLog(limits.PerHour(10)),
	limits.Distinct(limits.PerHour(10)),
	longLog,
}

// longLog is as long as a log may be.
var longLog = limits.SlidingLog(limits.Per(10_000, 24*time.Hour))

const (
	sizedInMemory = million
	sizedInRedis  = 100_000
	logsInMemory  = 1_000 // keys of longLog, each of which has used all its units
	logsInRedis   = 20
	together      = 100 // keys in a step
)

// reportSizes prints what a key takes under each algorithm, in memory and in Redis, and what many
// keys take in Redis. Sizes do not vary, so one reading tells.
func reportSizes(int) error {
	fmt.Printf("## sizes: bytes a key\n\n")
	t := table.Table{Heads: []string{
		"one unit used, except the last", "in memory, 1,000,000 keys", "in Redis, 100,000 keys",
		"MEMORY USAGE of one",
	}}
	for _, limit := range sized {
		progress("sizes: %v", limit)
		inMemory, err := runChild[float64]("sizes", limit.String())
		if err != nil {
			return err
		}
		keys, units := sizedInRedis, 1
		if limit == longLog {
			keys, units = logsInRedis, int(longLog.Burst())
		}
		used, usage, err := sizeInRedis(limit, units, keys)
		if err != nil {
			return err
		}
		t.Add(limit.String(), fmt.Sprintf("%.0f", inMemory), table.Number(used[0]/float64(keys)),
			table.Number(float64(usage)))
	}
	progress("")
	t.Print(os.Stdout)
	fmt.Printf("The last row: %d keys in memory and %d in Redis, each with 10,000 units used one by one.\n\n",
		logsInMemory, logsInRedis)

	steps := []int{10_000, 100_000, million}
	used, _, err := sizeInRedis(limits.SlidingWindow(limits.PerHour(10)), 1, steps...)
	if err != nil {
		return err
	}
	fmt.Printf("## sizes: keys under a sliding window in Redis\n\n")
	t = table.Table{Heads: []string{"keys", "MB", "bytes a key"}}
	for i, keys := range steps {
		t.Add(table.Number(float64(keys)), fmt.Sprintf("%.1f", used[i]/1e6), fmt.Sprintf("%.0f", used[i]/float64(keys)))
	}
	t.Print(os.Stdout)
	return reportKeyFlood()
}

// reportKeyFlood prints what a flood of new keys does to a server of its own that evicts nothing,
// without and with a bound on its memory.
func reportKeyFlood() error {
	fmt.Printf("## sizes: a flood of 1,000,000 new keys in Redis, noeviction\n\n")
	t := table.Table{Heads: []string{
		"maxmemory", "new keys decided", "MB", "a key that is spent", "a key with units left",
	}}
	for _, bound := range []string{"0", "100mb"} {
		row, err := floodServer(bound)
		if err != nil {
			return err
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	return nil
}

func floodServer(bound string) (row []string, err error) {
	ctx, limit := context.Background(), limits.SlidingWindow(limits.PerHour(10))
	server, err := remote.Start()
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	if err := client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err(); err != nil {
		return nil, err
	}
	if err := client.ConfigSet(ctx, "maxmemory", bound).Err(); err != nil {
		return nil, err
	}
	backend, err := redisbackend.NewBare(client, redisbackend.BareOptions{})
	if err != nil {
		return nil, err
	}
	const spent, known, first = 0, 1, 2
	err = errors.Join(
		takeEach(backend, limit, spent, spent+1, 10), takeEach(backend, limit, known, known+1, 1))
	if err != nil {
		return nil, err
	}
	decided := 0
	for from := first; from < first+million; from += together {
		if takeEach(backend, limit, from, from+together, 1) == nil {
			decided += together
		}
	}
	used, err := usedMemory(ctx, client)
	if err != nil {
		return nil, err
	}
	says := func(key int) string {
		out := make([]limits.Decision, 1)
		charges := []backends.Charge{{Scope: "per-client", Key: workload.NewKey(key), Limit: limit, Cost: 1}}
		switch err := backend.Take(ctx, charges, out); {
		case err != nil:
			return "an error"
		case out[0].Allowed:
			return "allowed"
		}
		return "denied"
	}
	return []string{
		bound, table.Number(float64(decided)), fmt.Sprintf("%.0f", float64(used)/1e6),
		says(spent), says(known),
	}, nil
}

// childSizes prints the bytes that a key takes in memory under the limit of this text.
func childSizes(text string) {
	limit, err := limits.Parse(text)
	if err != nil {
		fail("%s: %v", text, err)
	}
	options, units := memory.Options{MaxKeys: sizedInMemory}, 1
	keys := sizedInMemory
	if limit == longLog {
		keys, units = logsInMemory, int(longLog.Burst())
		now := time.Now()
		options = memory.Options{
			MaxKeys: 4 * keys, MaxLogEntries: 2 * keys * units,
			Clock: func() time.Time { now = now.Add(time.Microsecond); return now }, // no two takings are one
		}
	}
	before := measure.Heap()
	store := memory.MustNew(options)
	if err := takeEach(store, limit, 0, keys, units); err != nil {
		fail("%s: %v", text, err)
	}
	printReading(float64(measure.Heap()-before) / float64(keys))
	runtime.KeepAlive(store)
}

// takeEach takes units of the keys from first up to but not including end, one by one.
func takeEach(b backends.Backend, limit limits.Limit, first, end, units int) error {
	charges, decisions := make([]backends.Charge, together), make([]limits.Decision, together)
	for range units {
		for from := first; from < end; from += together {
			n := min(together, end-from)
			for i := range n {
				charges[i] = backends.Charge{Scope: "per-client", Key: workload.NewKey(from + i), Limit: limit, Cost: 1}
			}
			if err := b.Take(context.Background(), charges[:n], decisions[:n]); err != nil {
				return err
			}
			for i := range n {
				if !decisions[i].Allowed {
					return fmt.Errorf("key %d is denied", from+i)
				}
			}
		}
	}
	return nil
}

// sizeInRedis returns by how much a server of its own grows until each of so many keys has used
// units, for each of steps, and what the server says of one key.
func sizeInRedis(limit limits.Limit, units int, steps ...int) (used []float64, usage int64, err error) {
	ctx := context.Background()
	server, err := remote.Start()
	if err != nil {
		return nil, 0, err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	backend, err := redisbackend.NewBare(client, redisbackend.BareOptions{})
	if err != nil {
		return nil, 0, err
	}
	// The script and the connection are there before what is measured.
	if err := takeEach(backend, limit, 0, 1, 1); err != nil {
		return nil, 0, err
	}
	before, err := usedMemory(ctx, client)
	if err != nil {
		return nil, 0, err
	}
	have := 1
	for _, keys := range steps {
		if err := takeEach(backend, limit, have, keys+1, units); err != nil {
			return nil, 0, fmt.Errorf("%v: %w", limit, err)
		}
		have = keys + 1
		after, err := usedMemory(ctx, client)
		if err != nil {
			return nil, 0, err
		}
		used = append(used, float64(after-before))
	}
	names, _, err := client.Scan(ctx, 0, "weir:*", 100).Result()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		n, err := client.MemoryUsage(ctx, name).Result()
		if err != nil {
			return nil, 0, err
		}
		usage = max(usage, n)
	}
	return used, usage, nil
}

var usedMemoryLine = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

func usedMemory(ctx context.Context, client *redis.Client) (int64, error) {
	text, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	found := usedMemoryLine.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the server does not say its memory: %q", text)
	}
	return strconv.ParseInt(found[1], 10, 64)
}
