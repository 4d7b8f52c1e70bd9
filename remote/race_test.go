//go:build race

package remote_test

// The race detector makes sync.Pool drop what it is given, at random.
const raceEnabled = true
