package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/outgoing"
	"github.com/weir-go/weir/benchmarks/table"
)

// reportClient prints the cost per request of clients that follow limits.
func reportClient(rounds int) error {
	var names, peers, ours []string
	for _, c := range outgoing.Contestants() {
		names = append(names, c.Name)
		switch {
		case c.Weir:
			ours = append(ours, c.Name)
		default:
			peers = append(peers, c.Name)
		}
	}
	all, err := readWorkers("client", names, clientColumns, rounds,
		func(string, json.RawMessage) error { return nil })
	if err != nil {
		return err
	}

	heads := []string{"no fields", "RateLimit", "X-RateLimit", "whole exchange"}
	fmt.Printf("## client: added to a request whose answer is at hand, by its fields, and to a " +
		"whole exchange with a server in memory, ns and allocations\n\n")
	t := table.Table{Heads: []string{""}}
	for _, head := range heads {
		t.Heads = append(t.Heads, head, "allocs")
	}
	alone := []string{"*(the request without any of them)*"}
	for column := range clientColumns {
		without := all[ours[0]].all(column, func(s measure.Sample) float64 { return s.Without })
		alone = append(alone, "*"+table.Number(measure.Median(without))+"*", "")
	}
	t.Add(alone...)
	for _, name := range names {
		row := []string{name}
		for column := range clientColumns {
			row = append(row, table.Number(all[name].nanos(column)),
				table.Number(all[name].allocs(column)))
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	printWrong(names, heads, all)
	fmt.Printf("Each figure is the median of %d readings of the fastest piece with and without "+
		"the client.\n\n", len(all[ours[0]][0]))

	fmt.Printf("### As a share of what the fastest peer adds, and whether that is less\n\n")
	t = table.Table{Heads: []string{""}}
	fastest := []string{"fastest peer"}
	for column, head := range heads {
		t.Heads = append(t.Heads, head, "allocs")
		fastest = append(fastest, fastestOf(peers, column, all), "")
	}
	t.Add(fastest...)
	for _, name := range ours {
		row := []string{name}
		for column := range clientColumns {
			share := all[name].nanos(column) / all[fastest[2*column+1]].nanos(column)
			fewest := math.Inf(1)
			for _, peer := range peers {
				fewest = min(fewest, all[peer].allocs(column))
			}
			allocs := all[name].allocs(column)
			row = append(row, fmt.Sprintf("%.2f %s", share, table.Mark(share < 1)),
				fmt.Sprintf("%s of %s %s", table.Number(allocs), table.Number(fewest),
					table.Mark(allocs < fewest)))
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	return nil
}
