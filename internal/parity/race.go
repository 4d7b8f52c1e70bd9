//go:build race

package parity

// The race detector makes sync.Pool drop what it is given, at random.
const raceEnabled = true
