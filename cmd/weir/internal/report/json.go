package report

import (
	"io"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// JSON writes r as JSON.
func JSON(w io.Writer, r *simulate.Report) error {
	return visible.JSON(w, r)
}
