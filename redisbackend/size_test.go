package redisbackend_test

import "github.com/weir-go/weir/internal/proof/testrun"

// sized returns how much of a random test this run does, of full.
func sized(full int) int { return testrun.Sized(max(1, full/32), full) }
