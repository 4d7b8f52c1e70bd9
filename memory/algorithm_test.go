package memory

import (
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestEveryAlgorithmHasANameAndAFamily(t *testing.T) {
	for _, a := range limits.Algorithms() {
		if a.String() == "" || familyOf(a) == 0 {
			t.Errorf("algorithm %d: name %q, family %d", a, a.String(), familyOf(a))
		}
	}
}
