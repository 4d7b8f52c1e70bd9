package redisbackend_test

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
)

func TestEveryAlgorithmIsSupportedAndTested(t *testing.T) {
	b := redisbackend.New(newClient(t, "127.0.0.1:1"), redisbackend.Options{})
	for _, algorithm := range core.Algorithms() {
		i := slices.IndexFunc(everyAlgorithm, func(l core.Limit) bool { return l.Algorithm() == algorithm })
		if i < 0 {
			t.Errorf("everyAlgorithm of these tests has no %v", algorithm)
		} else if !core.Supports(b, everyAlgorithm[i]) {
			t.Errorf("the backend does not support %v", algorithm)
		}
	}
}
