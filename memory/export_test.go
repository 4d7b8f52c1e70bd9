package memory

import "unsafe"

// Summary returns how many bytes the summaries of what m has displaced take.
func Summary(m *Memory) (bytes int) {
	for i := range m.shards {
		bytes += cap(m.shards[i].floors) * int(unsafe.Sizeof(floor{}))
	}
	return bytes
}
