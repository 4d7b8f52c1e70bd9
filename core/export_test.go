package core

import "unsafe"

// Fallbacks returns how many backends have a fallback that limiters share.
func Fallbacks() int {
	fallbacks.Lock()
	defer fallbacks.Unlock()
	return len(fallbacks.of)
}

// TransientSize is by how many bytes a Decision is larger than without Transient.
const TransientSize = unsafe.Sizeof(Decision{}) - unsafe.Sizeof(struct {
	_ bool
	_ Source
	_ [6]int64
}{})
