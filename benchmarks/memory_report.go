package main

import (
	"fmt"
	"os"
	"time"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/table"
)

// The limits for weir's algorithms with a fixed amount of state per key.
const (
	bytesTarget      = 40               // per live key
	collectionTarget = time.Millisecond // additional time of a garbage collection
)

// reportMemory prints the memory of a million live keys. One reading is enough: sizes do not vary,
// and the times are minima of many.
func reportMemory(int) error {
	names := namesOf(store.Peer, store.Backend)
	all, err := runChildren[memoryReading]("memory", names)
	if err != nil {
		return err
	}
	fmt.Printf("## memory: 1,000,000 live keys, and a forced garbage collection with them held\n\n")
	t := table.Table{
		Heads: []string{
			"", "bytes per key", "GC, ms", "GC with an empty store, ms", "dearer by, ms",
		},
	}
	for _, name := range names {
		ours := contestant(name).Kind == store.Backend
		if ours && name == namesOf(store.Backend)[0] {
			t.Add("*target*", fmt.Sprintf("*≤ %d*", bytesTarget), "", "",
				fmt.Sprintf("*< %d*", collectionTarget.Milliseconds()))
		}
		r := all[name]
		dearer := r.Full - r.Empty
		row := []string{
			name, fmt.Sprintf("%.1f", r.BytesPerKey), ms(r.Full), ms(r.Empty), ms(dearer),
		}
		if ours {
			row[1] += " " + table.Mark(r.BytesPerKey <= bytesTarget)
			row[4] += " " + table.Mark(dearer < collectionTarget)
		}
		t.Add(row...)
	}
	t.Print(os.Stdout)
	return nil
}

// ms formats d in milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3) }
