package memory

import "unsafe"

// Nodes returns how many nodes of logs m has allocated.
func Nodes(m *Memory) (n int) {
	for i := range m.shards {
		n += int(m.shards[i].nodes.made)
	}
	return n
}

// Summary returns how many bytes the summaries of what m has displaced take.
func Summary(m *Memory) (bytes int) {
	for i := range m.shards {
		floors := m.shards[i].floors
		if floors == nil {
			continue
		}
		n := cap(floors.own)
		for _, shared := range floors.shared {
			n += cap(shared)
		}
		bytes += n * int(unsafe.Sizeof(floor{}))
	}
	return bytes
}
