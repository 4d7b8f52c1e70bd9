package core

import (
	"unsafe"

	"github.com/weir-go/weir/limits"
)

// Fallbacks returns how many backends have a fallback that limiters share.
func Fallbacks() int { return fallbacks.Len() }

// TransientSize is by how many bytes a Decision is larger than without Transient.
const TransientSize = unsafe.Sizeof(limits.Decision{}) - unsafe.Sizeof(struct {
	_ bool
	_ limits.Source
	_ [7]int64
}{})

// Hear has a denial cache hear an announcement.
func Hear(c *DenialCache, a limits.Announcement) { c.hear(a) }
