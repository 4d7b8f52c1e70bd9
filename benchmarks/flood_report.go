package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/table"
)

const (
	// maximal growth in bytes that counts as flat: less than half a byte for each of nine million
	// keys
	growthTarget = 4 << 20
	stallTarget  = 5 * time.Millisecond
)

// floodWeirs are the algorithms of weir with different state. The two leaky ones have the state of
// the token bucket.
var floodWeirs = []string{"weir token bucket", "weir fixed window", "weir sliding window"}

// reportFlood prints the effect of ten million new keys on a store. One reading is enough: it is
// deterministic except for the machine, and the stopwatch excludes other programs.
func reportFlood(int) error {
	peers := namesOf(store.Peer)
	all, err := runChildren[floodReading]("flood", slices.Concat(peers, floodWeirs))
	if err != nil {
		return err
	}
	fmt.Printf("## flood: 10,000,000 keys, one request each\n\n")
	t := table.Table{Heads: []string{""}}
	for _, m := range floodMillions {
		t.Heads = append(t.Heads, fmt.Sprintf("MiB after %dM", m))
	}
	t.Heads = append(t.Heads, "longest 1,024, ms", "ns a decision", "first requests denied",
		"spent key still denied")
	for _, name := range peers {
		t.Add(floodRow(name, all[name])...)
	}
	t.Add("*target, room for 1M keys*", "", "", "", "*flat*",
		fmt.Sprintf("*≤ %d*", stallTarget.Milliseconds()), "", "", "*yes*")
	for _, name := range floodWeirs {
		r := all[name]
		row := floodRow(name, r)
		row[4] += " " + table.Mark(r.Held[3]-r.Held[0] <= growthTarget)
		row[5] += " " + table.Mark(r.Longest <= stallTarget)
		row[8] += " " + table.Mark(r.Kept)
		t.Add(row...)
	}
	t.Print(os.Stdout)
	return nil
}

func floodRow(name string, r floodReading) []string {
	row := []string{name}
	for _, held := range r.Held {
		row = append(row, table.Number(float64(held)/(1<<20)))
	}
	kept := "no"
	if r.Kept {
		kept = "yes"
	}
	return append(row, ms(r.Longest), table.Number(float64(r.Took)/floodKeys),
		fmt.Sprintf("%.2f%%", 100*float64(r.Denied)/floodKeys), kept)
}
