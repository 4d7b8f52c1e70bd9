package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/table"
)

// decisionTargets are the most that limits.Backend may take of what the fastest
// keyed peer takes, column by column. core.Limiter must take less than it in
// every column. Neither may allocate.
var decisionTargets = []float64{0.6, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5}

// reportDecision prints what one decision takes and how weir compares.
func reportDecision(rounds int) error {
	names := namesOf(store.Harness, store.Peer, store.Backend, store.Limiter)
	all, err := readWorkers("decision", names, len(decisionHeads), rounds, func(string, json.RawMessage) error { return nil })
	if err != nil {
		return err
	}
	fmt.Printf("## decision: one decision in memory, ns\n\n")
	t := table.Table{Heads: append(append([]string{""}, decisionHeads...), "allocs")}
	for _, name := range names {
		row := []string{name}
		for column := range decisionHeads {
			row = append(row, table.Number(all[name].nanos(column)))
		}
		t.Add(append(row, table.Number(all[name].mostAllocs()))...)
	}
	t.Print(os.Stdout)
	printWrong(names, decisionHeads, all)
	printSpread(all)
	printDecisionRatios(all)
	return nil
}

func printDecisionRatios(all map[string]readings) {
	fastest := make([]string, len(decisionHeads))
	for column := range fastest {
		fastest[column] = fastestOf(namesOf(store.Peer), column, all)
	}
	ratios := func(name string, met func(column int, ratio float64) bool) []string {
		row := []string{name}
		for column, peer := range fastest {
			ratio := all[name].nanos(column) / all[peer].nanos(column)
			row = append(row, fmt.Sprintf("%.2f %s", ratio, table.Mark(met(column, ratio))))
		}
		allocs := table.Number(all[name].mostAllocs())
		return append(row, allocs+" "+table.Mark(allocs == "0"))
	}

	fmt.Printf("## decision: weir's time as a share of the fastest keyed peer's, and whether that is on target\n\n")
	t := table.Table{Heads: append(append([]string{""}, decisionHeads...), "allocs")}
	t.Add(append([]string{"fastest keyed peer"}, fastest...)...)

	for _, name := range namesOf(store.Harness) {
		row := []string{name}
		for column, peer := range fastest {
			row = append(row, fmt.Sprintf("%.2f", all[name].nanos(column)/all[peer].nanos(column)))
		}
		t.Add(append(row, "")...)
	}

	targets := []string{"*target, limits.Backend*"}
	for _, most := range decisionTargets {
		targets = append(targets, fmt.Sprintf("*≤ %.2f*", most))
	}
	t.Add(append(targets, "*0*")...)
	for _, name := range namesOf(store.Backend) {
		t.Add(ratios(name, func(column int, ratio float64) bool { return ratio <= decisionTargets[column] })...)
	}

	targets = []string{"*target, core.Limiter*"}
	for range fastest {
		targets = append(targets, "*< 1.00*")
	}
	t.Add(append(targets, "*0*")...)
	for _, name := range namesOf(store.Limiter) {
		t.Add(ratios(name, func(_ int, ratio float64) bool { return ratio < 1 })...)
	}
	t.Print(os.Stdout)
}
