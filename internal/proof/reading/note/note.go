// Package note records which functions a request calls. Copies of the library that package reading
// makes call it; nothing else does.
package note

import (
	"bytes"
	"runtime"
	"sync"
)

// Entry is a call of the function with number Function, by a goroutine.
type Entry struct{ Goroutine, Function int }

var (
	mu      sync.Mutex
	on      bool
	entries []Entry
)

// Record drops what was recorded, and records calls from now on.
func Record() {
	mu.Lock()
	defer mu.Unlock()
	on, entries = true, nil
}

// Stop returns what was recorded, and ends it.
func Stop() []Entry {
	mu.Lock()
	defer mu.Unlock()
	on = false
	return entries
}

// Call records a call of a function.
func Call(function int) {
	mu.Lock()
	defer mu.Unlock()
	if on {
		entries = append(entries, Entry{goroutine(), function})
	}
}

// goroutine returns the number of the goroutine, which a stack begins with.
func goroutine() (n int) {
	var space [64]byte
	stack := space[:runtime.Stack(space[:], false)]
	for _, c := range bytes.TrimPrefix(stack, []byte("goroutine ")) {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
