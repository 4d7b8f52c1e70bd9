package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/table"
)

// decisionTargets are the maximal times of weir relative to the fastest keyed peer, by kind and
// column. No decision may allocate.
var decisionTargets = []struct {
	name string
	kind store.Kind
	most []float64
}{
	{"backends.Backend", store.Backend, []float64{0.6, 0.6, 0.6, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5}},
	{"core.Limiter", store.Limiter, []float64{0.8, 0.8, 0.8, 0.8, 0.8, 1, 1, 1, 1}},
	{"memory.Bound", store.Bound, []float64{0.65, 0.65, 0.65, 0.65, 0.65, 0.5, 0.5, 0.5, 0.5}},
}

// reportDecision prints the time of one decision, and compares weir with the peers.
func reportDecision(rounds int) error {
	names := namesOf(store.Harness, store.Peer, store.Backend, store.Limiter, store.Bound)
	all, err := readWorkers("decision", names, len(decisionHeads), rounds,
		func(string, json.RawMessage) error { return nil })
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
	printDecisionRates(all)
	return nil
}

func printDecisionRatios(readingsOf map[string]readings) {
	fastest := make([]string, len(decisionHeads))
	for column := range fastest {
		fastest[column] = fastestOf(namesOf(store.Peer), column, readingsOf)
	}
	ratios := func(name string, met func(column int, ratio float64) bool) []string {
		row := []string{name}
		for column, peer := range fastest {
			ratio := readingsOf[name].nanos(column) / readingsOf[peer].nanos(column)
			row = append(row, fmt.Sprintf("%.2f %s", ratio, table.Mark(met(column, ratio))))
		}
		allocs := table.Number(readingsOf[name].mostAllocs())
		return append(row, allocs+" "+table.Mark(allocs == "0"))
	}

	fmt.Printf("## decision: weir's time as a share of the fastest keyed peer's, and whether " +
		"that is on target\n\n")
	t := table.Table{Heads: append(append([]string{""}, decisionHeads...), "allocs")}
	t.Add(append([]string{"fastest keyed peer"}, fastest...)...)

	for _, name := range namesOf(store.Harness) {
		row := []string{name}
		for column, peer := range fastest {
			row = append(row, fmt.Sprintf("%.2f", readingsOf[name].nanos(column)/readingsOf[peer].nanos(column)))
		}
		t.Add(append(row, "")...)
	}

	for _, target := range decisionTargets {
		row := []string{fmt.Sprintf("*target, %s*", target.name)}
		for _, most := range target.most {
			row = append(row, fmt.Sprintf("*≤ %.2f*", most))
		}
		t.Add(append(row, "*0*")...)
		for _, name := range namesOf(target.kind) {
			t.Add(
				ratios(name, func(column int, ratio float64) bool {
					return ratio <= target.most[column]
				})...)
		}
	}
	t.Print(os.Stdout)
}

// printDecisionRates prints the decisions per second of weir.
func printDecisionRates(readingsOf map[string]readings) {
	fmt.Printf("## decision: millions of decisions a second, on %d processors where parallel\n\n",
		runtime.GOMAXPROCS(0))
	t := table.Table{Heads: append([]string{""}, decisionHeads...)}
	for _, name := range namesOf(store.Backend, store.Limiter, store.Bound) {
		row := []string{name}
		for column := range decisionHeads {
			row = append(row, fmt.Sprintf("%.1f", 1e3/readingsOf[name].nanos(column)))
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
}
