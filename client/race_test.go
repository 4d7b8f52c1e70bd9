//go:build race

package client_test

// Closed loops take ten times as long under the race detector: fewer run.
const raceEnabled = true
