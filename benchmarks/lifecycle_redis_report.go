package main

import (
	"fmt"
	"os"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/remote"
	"github.com/weir-go/weir/benchmarks/table"
)

// lifecycleServerTarget is the maximal cost of a start for the server, relative to a decision by
// one rate.
const lifecycleServerTarget = 1.5

// printLifecycleServer prints the cost of a start and an end for the server.
func printLifecycleServer(runners []*lifecycleRunner) {
	heads := []string{""}
	for _, load := range lifecycleRedisLoads {
		heads = append(heads, "start, "+load.head, "end")
	}
	fmt.Printf("## lifecycle: µs of the redis-server for one start and for one end, one after " +
		"the other\n\n")
	t := table.Table{Heads: heads}
	for _, r := range runners {
		row := []string{r.Name}
		for load := range lifecycleRedisLoads {
			end := ""
			if r.Returns > 0 {
				end = fmt.Sprintf("%.1f", measure.Median(r.ends[load]))
			}
			row = append(row, fmt.Sprintf("%.1f", measure.Median(r.starts[load])), end)
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	printLifecycleSpread(runners)

	fmt.Printf("## lifecycle: the same as a share of a decision by one rate, and whether a " +
		"start is on target\n\n")
	t = table.Table{Heads: heads}
	targets := []string{"*target, rate and concurrency*"}
	for range lifecycleRedisLoads {
		targets = append(targets, fmt.Sprintf("*≤ %.2f*", lifecycleServerTarget), "")
	}
	t.Add(targets...)
	one := runnerNamed(runners, remote.OneRate)
	for _, r := range runners {
		if r == one {
			continue
		}
		row := []string{r.Name}
		for load := range lifecycleRedisLoads {
			start, end := shareOf(r.starts[load], one.starts[load]), ""
			cell := fmt.Sprintf("%.2f", start)
			if r.Judged {
				cell += " " + table.Mark(start <= lifecycleServerTarget)
			}
			if r.Returns > 0 {
				end = fmt.Sprintf("%.2f", shareOf(r.ends[load], one.starts[load]))
			}
			row = append(row, cell, end)
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
}

// printLifecycleSpread prints the spread of the figures of the server.
func printLifecycleSpread(runners []*lifecycleRunner) {
	var spreads []float64
	worst := 0.0
	for _, r := range runners {
		for load := range lifecycleRedisLoads {
			spread := measure.Spread(r.starts[load])
			spreads = append(spreads, spread)
			worst = max(worst, spread)
		}
	}
	fmt.Printf("Each start is the median of %d lots of %d, which typically lie %.0f%% from it, "+
		"and %.0f%% in the least steady cell.\n\n",
		len(runners[0].starts[0]), lifecycleLot, 100*measure.Median(spreads), 100*worst)
}

// printLifecyclePerSecond prints how many requests a second start and end.
func printLifecyclePerSecond(runners []*lifecycleRunner) {
	heads := []string{""}
	for _, load := range lifecycleRedisLoads {
		for _, goroutines := range load.goroutines {
			heads = append(heads, fmt.Sprintf("%s, %d", load.head, goroutines))
		}
	}
	fmt.Printf("## lifecycle: requests per second that start and end through one redis-server, " +
		"by goroutines\n\n")
	t := table.Table{Heads: heads}
	for _, r := range runners {
		row := []string{r.Name}
		for load := range lifecycleRedisLoads {
			for _, rates := range r.perSecond[load] {
				row = append(row, table.Number(measure.Median(rates)))
			}
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	for _, r := range runners {
		if dropped := r.runs.Ended().Dropped(); dropped > 0 {
			fmt.Printf("%s: %s of %s ends were never sent, because too many waited.\n\n",
				r.Name, table.Number(float64(dropped)), table.Number(float64(r.started.Load())))
		}
	}
}

// shareOf returns the ratio of readings to other readings. It compares lot by lot, since noise of a
// shared machine differs between lots.
func shareOf(readings, others []float64) float64 {
	var shares []float64
	for i, reading := range readings {
		if others[i] > 0 {
			shares = append(shares, reading/others[i])
		}
	}
	return measure.Median(shares)
}

func runnerNamed(runners []*lifecycleRunner, name string) *lifecycleRunner {
	for _, r := range runners {
		if r.Name == name {
			return r
		}
	}
	panic("no runner " + name)
}
