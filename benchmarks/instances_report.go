package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/benchmarks/table"
	"github.com/weir-go/weir/limits"
	weirremote "github.com/weir-go/weir/remote"
)

const (
	instancesLimit   = 500 // a second
	instancesOffered = 800 // a second, over all instances
	instancesWarmUp  = 2 * time.Second
	instancesStretch = 10 * time.Second
	instancesLease   = 200 * time.Millisecond
)

// instancesReading is one run of one row.
type instancesReading struct {
	offered, admitted, calls float64 // a second
	most                     float64 // admitted in one second of the clock
	p50, p99                 float64 // µs
	alone                    int     // decisions that fell back
}

// reportInstances prints how many requests two instances admit that share a limit. Load and limit
// are those that APISIX published for its delayed sync, in its pull request 13704.
func reportInstances(rounds int) error {
	rate := limits.PerSecond(instancesLimit)
	var rows []instance
	for _, limit := range []limits.Limit{limits.FixedWindow(rate), limits.SlidingWindow(rate)} {
		for _, lease := range []time.Duration{0, instancesLease} {
			rows = append(rows, instance{Limit: limit, Lease: lease})
		}
	}
	readings := make([][]instancesReading, len(rows))
	for round := range rounds {
		for i, row := range rows {
			progress("instances: round %d of %d, row %d of %d", round+1, rounds, i+1, len(rows))
			r, err := readInstances(row)
			if err != nil {
				return fmt.Errorf("instances: %w", err)
			}
			readings[i] = append(readings[i], r)
		}
	}
	progress("")
	printInstances(rows, readings)
	return nil
}

// readInstances runs two instances on a redis-server of their own.
func readInstances(c instance) (reading instancesReading, err error) {
	server, err := remote.Start()
	if err != nil {
		return reading, err
	}
	defer server.Stop()
	c.Redis = "redis://" + server.Addr
	var instances [2]*runningInstance
	for i := range instances {
		if instances[i], err = c.start(); err != nil {
			return reading, err
		}
		defer instances[i].kill()
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()

	begin := time.Now().Truncate(time.Second).Add(time.Second + instancesWarmUp)
	var counted sync.WaitGroup
	var calls [2]float64
	var failures [2]error
	for i, at := range []time.Time{begin, begin.Add(instancesStretch)} {
		counted.Go(func() {
			time.Sleep(time.Until(at))
			calls[i], failures[i] = server.Calls(context.Background(), client)
		})
	}
	if err := offerInstances(instances[:], begin); err != nil {
		return reading, err
	}
	counted.Wait()
	for _, err := range failures {
		if err != nil {
			return reading, err
		}
	}
	var decisions []instanceDecision
	for _, r := range instances {
		own, err := r.stop()
		if err != nil {
			return reading, err
		}
		decisions = append(decisions, own...)
	}
	reading = summarize(within(decisions, begin, instancesStretch))
	reading.calls = (calls[1] - calls[0]) / instancesStretch.Seconds()
	return reading, nil
}

// offerInstances sends requests to the instances in turn, at even intervals, whatever earlier ones
// are doing. It starts before begin, to warm up. It returns an error if a request fails.
func offerInstances(instances []*runningInstance, begin time.Time) error {
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 10 * time.Second,
	}
	defer client.CloseIdleConnections()
	var done sync.WaitGroup
	var mu sync.Mutex
	var failure error
	start := begin.Add(-instancesWarmUp)
	for i := range int(instancesOffered * (instancesWarmUp + instancesStretch).Seconds()) {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / instancesOffered)))
		done.Go(func() {
			response, err := client.Get(instances[i%len(instances)].address)
			if err == nil {
				err = response.Body.Close()
			}
			if err != nil {
				mu.Lock()
				failure = err
				mu.Unlock()
			}
		})
	}
	done.Wait()
	return failure
}

func summarize(decisions []instanceDecision) (r instancesReading) {
	admitted := make(map[int64]int) // by the second
	var micros []float64
	for _, d := range decisions {
		if d.Allowed {
			admitted[d.At/1_000_000]++
		}
		if d.Source == limits.SourceFallback {
			r.alone++
		}
		micros = append(micros, d.Micros)
	}
	total := 0
	for _, n := range admitted {
		total += n
		r.most = max(r.most, float64(n))
	}
	r.offered = float64(len(decisions)) / instancesStretch.Seconds()
	r.admitted = float64(total) / instancesStretch.Seconds()
	if slices.Sort(micros); len(micros) > 0 {
		r.p50, r.p99 = micros[len(micros)/2], micros[len(micros)*99/100]
	}
	return r
}

func printInstances(rows []instance, readings [][]instancesReading) {
	fmt.Printf("## instances: two instances share one limit of %d a second over Redis\n\n"+
		"%d requests a second, half to each, for %v; least to most of %d runs.\n\n",
		instancesLimit, instancesOffered, instancesStretch, len(readings[0]))
	t := table.Table{Heads: []string{"", "offered a second", "admitted a second",
		"most in a second", "p50, µs", "p99, µs", "script calls a second"}}
	alone := 0
	for i, row := range rows {
		name := row.Limit.Algorithm().String() + ", no leases"
		if row.Lease > 0 {
			_, lease := weirremote.Leased(row.Limit, row.Lease)
			name = fmt.Sprintf("%v, leases of %v", row.Limit.Algorithm(), lease)
		}
		cell := func(of func(instancesReading) float64) string {
			var all []float64
			for _, r := range readings[i] {
				all = append(all, of(r))
			}
			least, most := table.Number(slices.Min(all)), table.Number(slices.Max(all))
			if least == most {
				return least
			}
			return least + " to " + most
		}
		t.Add(name,
			cell(func(r instancesReading) float64 { return r.offered }),
			cell(func(r instancesReading) float64 { return r.admitted }),
			cell(func(r instancesReading) float64 { return r.most }),
			cell(func(r instancesReading) float64 { return r.p50 }),
			cell(func(r instancesReading) float64 { return r.p99 }),
			cell(func(r instancesReading) float64 { return r.calls }))
		for _, r := range readings[i] {
			alone += r.alone
		}
	}
	t.Print(os.Stdout)
	fmt.Printf("Decisions that fell back: %d.\n\n", alone)
}
