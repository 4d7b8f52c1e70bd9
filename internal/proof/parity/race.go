//go:build race

package parity

// The race detector makes sync.Pool drop objects at random.
const raceEnabled = true
