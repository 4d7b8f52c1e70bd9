package main

import (
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// maxColumn is how wide a column is made: rows with a longer cell are out of line. A page
// with one huge name and many rules would fill the memory with blanks.
const maxColumn = 200

// table returns rows in columns, two blanks apart. The last column is as wide as it likes.
func table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(utf8.RuneCountInString(cell), maxColumn))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			cell = strings.ReplaceAll(visible.Text(cell), "\n", " ")
			line += cell + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
