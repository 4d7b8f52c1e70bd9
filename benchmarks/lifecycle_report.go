package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/weir-go/weir/benchmarks/inflight"
	"github.com/weir-go/weir/benchmarks/table"
)

// The maximal cost of a decision by a rate and a concurrency limit, with its end: the time relative
// to a decision by two rates, and allocations.
const (
	lifecycleTarget = 1.5
	lifecycleAllocs = 1
)

// reportLifecycle prints the cost of requests from start to end, in memory and in Redis.
func reportLifecycle(rounds int) error {
	if err := reportLifecycleMemory(rounds); err != nil {
		return err
	}
	return reportLifecycleRedis(rounds)
}

func reportLifecycleMemory(rounds int) error {
	heads := lifecycleHeads()
	var names []string
	for _, c := range inflight.Contestants() {
		names = append(names, c.Name)
	}
	all, err := readWorkers("lifecycle", names, len(heads), rounds,
		func(string, json.RawMessage) error { return nil })
	if err != nil {
		return err
	}
	fmt.Printf("## lifecycle: one request in memory from its start to its end, ns\n\n")
	t := table.Table{Heads: append(append([]string{""}, heads...), "allocs")}
	for _, name := range names {
		row := []string{name}
		for column := range heads {
			row = append(row, table.Number(all[name].nanos(column)))
		}
		t.Add(append(row, table.Number(all[name].mostAllocs()))...)
	}
	t.Print(os.Stdout)
	printWrong(names, heads, all)
	printSpread(all)

	fmt.Printf("## lifecycle: as a share of a decision by two rates, and whether that is on " +
		"target\n\n")
	t = table.Table{Heads: append(append([]string{""}, heads...), "allocs")}
	targets := []string{"*target, rate and concurrency*"}
	for range heads {
		targets = append(targets, fmt.Sprintf("*≤ %.2f*", lifecycleTarget))
	}
	t.Add(append(targets, fmt.Sprintf("*≤ %d*", lifecycleAllocs))...)
	for _, c := range inflight.Contestants() {
		if c.Kind != inflight.Ends {
			continue
		}
		judged := c.Rate && c.AtOnce
		mark := func(cell string, met bool) string {
			if judged {
				cell += " " + table.Mark(met)
			}
			return cell
		}
		row := []string{c.Name}
		for column := range heads {
			share := all[c.Name].nanos(column) / all[inflight.TwoRates].nanos(column)
			row = append(row, mark(fmt.Sprintf("%.2f", share), share <= lifecycleTarget))
		}
		allocs := all[c.Name].mostAllocs()
		t.Add(append(row, mark(table.Number(allocs), allocs < lifecycleAllocs+0.5))...)
	}
	t.Print(os.Stdout)
	return nil
}
