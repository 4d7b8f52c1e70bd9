//go:build race

package interleave

import "runtime"

// hidden calls switch_, in which no goroutine synchronizes with another for the race detector.
func hidden(switch_ func()) {
	runtime.RaceDisable()
	switch_()
	runtime.RaceEnable()
}
