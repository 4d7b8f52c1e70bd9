package core

import "testing"

func TestEveryAlgorithmHasANameAndAFamily(t *testing.T) {
	if n := len(Algorithms()); n != int(algorithmEnd-1) {
		t.Errorf("%d algorithms, want %d", n, algorithmEnd-1)
	}
	for _, a := range Algorithms() {
		if a.String() == "" || a.family() == 0 {
			t.Errorf("algorithm %d: name %q, family %d", a, a.String(), a.family())
		}
	}
}
