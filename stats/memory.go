package stats

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/memory"
)

// countEvery is how often the keys of a memory are counted at most: it looks at every
// slot of the memory.
const countEvery = 10 * time.Second

// watched is a memory that is watched.
type watched struct {
	of *memory.Memory

	mu        sync.Mutex
	keys      int
	countedAt time.Time
}

func (m *watched) snapshot(name string, now time.Time) MemorySnapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.countedAt.IsZero() || now.Sub(m.countedAt) >= countEvery {
		m.keys, _ = m.of.Count(context.Background()) // a Memory does not fail
		m.countedAt = now
	}
	return MemorySnapshot{name, m.keys, m.countedAt, m.of.MaxKeys(), m.of.Displaced()}
}
