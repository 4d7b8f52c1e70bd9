package limits_test

import (
	"testing"
	"unsafe"

	"github.com/weir-go/weir/limits"
)

// A Decision is cleared and copied for every rule of every request.
func TestTransientTakesNoRoom(t *testing.T) {
	without := unsafe.Sizeof(struct {
		_ bool
		_ limits.Source
		_ [7]int64
	}{})
	if size := unsafe.Sizeof(limits.Decision{}); size != without {
		t.Errorf("a Decision has %d bytes, %d without Transient", size, without)
	}
}
