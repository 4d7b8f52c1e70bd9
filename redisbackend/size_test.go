package redisbackend_test

import (
	"os"
	"testing"
)

// sized returns how much of a random test this run does, of full: a quarter; a
// sixteenth with -short or under the race detector; all of it where the
// environment variable WEIR_FULL is set.
func sized(full int) int {
	switch {
	case os.Getenv("WEIR_FULL") != "":
		return full
	case testing.Short():
		return full / 16
	}
	return full / 4 / underRace
}
