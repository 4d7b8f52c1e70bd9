package admin

import (
	"embed"
	"time"

	"github.com/weir-go/weir/stats"
)

// Files are the files of the page.
func Files() embed.FS { return files }

// Mask returns a function that shows keys of a rule with a KeyName.
func Mask(display KeyDisplay) func(key, name string) string { return newMasker(display).text }

// Quantile returns what the page shows of a percentile of h, in microseconds.
func Quantile(h stats.Histogram, percent int64) int64 { return quantile(&h, percent) }

// RowsKept makes n rows at an instant and returns how many of them are remembered.
func RowsKept(n int, later time.Duration) int {
	rs := newRows(newMasker(Masked), newLimiters(nil))
	now := time.Now()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = rs.id(row{key: string(rune(i))}, now)
	}
	for range 2 { // two turns make two generations
		now = now.Add(later)
		rs.id(row{key: "later"}, now)
	}
	kept := 0
	for _, id := range ids {
		if _, ok := rs.find(id); ok {
			kept++
		}
	}
	return kept
}
