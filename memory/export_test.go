package memory

import "unsafe"

// Nodes returns how many nodes of logs m has allocated.
func Nodes(m *Memory) (n int) {
	for i := range m.shards {
		n += int(m.shards[i].states.logs.made)
	}
	return n
}

// Summary returns how many bytes the summaries of what m has displaced take.
func Summary(m *Memory) (bytes int) {
	for i := range m.shards {
		f := &m.shards[i].floors
		n := cap(f.own)
		for _, shared := range f.shared {
			n += cap(shared)
		}
		bytes += n * int(unsafe.Sizeof(floor{}))
	}
	return bytes
}
