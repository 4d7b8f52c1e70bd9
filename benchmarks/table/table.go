// Package table writes Markdown tables.
package table

import (
	"fmt"
	"io"
	"strings"
)

// Table is a table: rows of cells below a row of heads.
type Table struct {
	Heads []string
	Rows  [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Print writes t to w as Markdown that is also aligned as plain text: the first column to the left,
// the others to the right.
func (t *Table) Print(w io.Writer) {
	width := make([]int, len(t.Heads))
	for _, row := range append([][]string{t.Heads}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)), 3)
		}
	}
	line := func(row []string) {
		for i := range t.Heads {
			var cell string
			if i < len(row) {
				cell = row[i]
			}
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i == 0 {
				fmt.Fprint(w, "| ", cell, pad)
			} else {
				fmt.Fprint(w, " | ", pad, cell)
			}
		}
		fmt.Fprintln(w, " |")
	}
	line(t.Heads)
	for i := range t.Heads {
		if i == 0 {
			fmt.Fprint(w, "|", strings.Repeat("-", width[i]+2))
		} else {
			fmt.Fprint(w, "|", strings.Repeat("-", width[i]+1), ":")
		}
	}
	fmt.Fprintln(w, "|")
	for _, row := range t.Rows {
		line(row)
	}
	fmt.Fprintln(w)
}

// Number formats x as a whole number with commas between the thousands.
func Number(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Mark returns a mark for a target that is met or missed.
func Mark(met bool) string {
	if met {
		return "✓"
	}
	return "✗"
}
