package main

import (
	"fmt"

	"github.com/weir-go/weir/benchmarks/measure"
)

// nanos returns the median time of an operation in a column.
func (r readings) nanos(column int) float64 {
	return measure.Median(r.all(column, func(s measure.Sample) float64 { return s.Nanos }))
}

// allocs returns the median number of allocations of an operation in a column.
func (r readings) allocs(column int) float64 {
	return measure.Median(r.all(column, func(s measure.Sample) float64 { return s.Allocs }))
}

// mostAllocs returns the allocations of an operation in the column with the most.
func (r readings) mostAllocs() (most float64) {
	for column := range r {
		most = max(most, r.allocs(column))
	}
	return most
}

func (r readings) all(column int, part func(measure.Sample) float64) []float64 {
	var parts []float64
	for _, s := range r[column] {
		parts = append(parts, part(s))
	}
	return parts
}

// fastestOf returns the name with the fastest readings in a column.
func fastestOf(names []string, column int, readingsOf map[string]readings) (fastest string) {
	for _, name := range names {
		if fastest == "" || readingsOf[name].nanos(column) < readingsOf[fastest].nanos(column) {
			fastest = name
		}
	}
	return fastest
}

// printWrong lists contestants with wrong results: denied instead of allowed, allowed instead of
// denied, or failed. Their figures do not measure the task.
func printWrong(names, heads []string, readingsOf map[string]readings) {
	for _, name := range names {
		for column, samples := range readingsOf[name] {
			wrong, ops := 0, 0
			for _, s := range samples {
				wrong += s.Wrong
				ops += s.Ops
			}
			if wrong > 0 {
				fmt.Printf("%s, %s: %d of %d were errors or came out wrong.\n\n", name,
					heads[column], wrong, ops)
			}
		}
	}
}

// printSpread prints how far the figures vary.
func printSpread(readingsOf map[string]readings) {
	var spreads []float64
	worst, count := 0.0, 0
	for _, r := range readingsOf {
		for column := range r {
			spread := measure.Spread(
				r.all(column, func(s measure.Sample) float64 { return s.Nanos }))
			spreads = append(spreads, spread)
			count = len(r[column])
			worst = max(worst, spread)
		}
	}
	fmt.Printf("Each figure is the median of %d readings, which typically lie %.0f%% from it, "+
		"and %.0f%% in the least steady cell.\n\n",
		count, 100*measure.Median(spreads), 100*worst)
}
