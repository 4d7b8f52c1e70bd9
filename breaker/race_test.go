//go:build race

package breaker_test

// The race detector makes sync.Pool drop objects at random.
const raceEnabled = true
