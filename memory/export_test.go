package memory

import "unsafe"

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
