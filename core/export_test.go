package core

import (
	"unsafe"

	"github.com/weir-go/weir/limits"
)

// Fallbacks returns how many backends have a fallback that limiters share.
func Fallbacks() int {
	commons.Lock()
	defer commons.Unlock()
	return len(commons.of)
}

// TransientSize is by how many bytes a Decision is larger than without Transient.
const TransientSize = unsafe.Sizeof(limits.Decision{}) - unsafe.Sizeof(struct {
	_ bool
	_ limits.Source
	_ [7]int64
}{})

// Summary returns how many bytes the summaries of what m has displaced take, and
// how many floors a decision looks at, at most.
func Summary(m *Memory) (bytes, floors int) {
	for i := range m.shards {
		sh := &m.shards[i]
		bytes += cap(sh.floors) * int(unsafe.Sizeof(floor{}))
		if floors = max(floors, len(sh.floors)); sh.coarse != nil {
			bytes += int(unsafe.Sizeof(*sh.coarse))
		}
	}
	return bytes, floors
}

// Hear has a denial cache hear an announcement.
func Hear(c *DenialCache, a Announcement) { c.hear(a) }
