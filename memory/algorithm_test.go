package memory

import (
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestEveryAlgorithmHasANameAndAFamily(t *testing.T) {
	for _, a := range limits.Algorithms() {
		if a.String() == "" || families[a] == nil {
			t.Errorf("algorithm %d: name %q, family %v", a, a.String(), families[a])
		}
	}
}
