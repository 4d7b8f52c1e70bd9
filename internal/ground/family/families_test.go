package family

import (
	"testing"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

func TestEveryAlgorithmHasANameAndAFamily(t *testing.T) {
	for _, a := range limits.Algorithms() {
		if algorithm.Of(a).Name == "" || int(a) >= len(families) || families[a] == nil {
			t.Errorf("algorithm %d: name %q, families %v", a, algorithm.Of(a).Name, families)
		}
	}
}
