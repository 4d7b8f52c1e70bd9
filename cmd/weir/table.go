package main

import (
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// maxColumn is the maximal width of a column. Rows with a longer cell are not aligned. Otherwise
// one huge name with many rules would fill the memory with spaces.
const maxColumn = 200

// table returns rows in columns, two spaces apart. The last column has no padding.
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
