package stats

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/memory"
)

// countEvery is the shortest time between two counts of the keys of a memory. A count reads every
// slot.
const countEvery = 10 * time.Second

type watchedMemory struct {
	memory *memory.Memory

	mu        sync.Mutex
	keys      int
	countedAt time.Time
}

func (m *watchedMemory) snapshot(name string, now time.Time) MemorySnapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.countedAt.IsZero() || now.Sub(m.countedAt) >= countEvery {
		m.keys, _ = m.memory.Count(context.Background()) // Count of a Memory never fails
		m.countedAt = now
	}
	return MemorySnapshot{name, m.keys, m.countedAt, m.memory.MaxKeys(), m.memory.Displaced()}
}
