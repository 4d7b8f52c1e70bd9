package redisbackend_test

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

func TestEveryAlgorithmIsSupportedAndTested(t *testing.T) {
	b := redisbackend.MustNewBare(newClient(t, "127.0.0.1:1"), redisbackend.BareOptions{})
	if !backends.CanSettle(b) {
		t.Error("the backend cannot settle")
	}
	for _, algorithm := range limits.Algorithms() {
		if algorithm == limits.AlgorithmDistinct { // settles nothing; distinct_test.go tests it
			if !backends.Supports(b, limits.Distinct(limits.PerHour(1))) {
				t.Errorf("the backend does not support %v", algorithm)
			}
			continue
		}
		if algorithm == limits.AlgorithmConcurrent { // has no rate, and tests of its own: holds_test.go
			if !backends.Supports(b, limits.Concurrent(1)) {
				t.Errorf("the backend does not support %v", algorithm)
			}
			continue
		}
		i := slices.IndexFunc(settled, func(l limits.Limit) bool { return l.Algorithm() == algorithm })
		if i < 0 {
			t.Errorf("settled of these tests has no %v", algorithm)
		} else if !backends.Supports(b, settled[i]) {
			t.Errorf("the backend does not support %v", algorithm)
		}
	}
}
