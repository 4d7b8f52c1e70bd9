package accesslog

import (
	"io"
	"sync/atomic"
)

// Meter counts the bytes read through it. Count may be called from other goroutines.
type Meter struct {
	r io.Reader
	n atomic.Int64
}

// NewMeter returns a Meter that reads from r.
func NewMeter(r io.Reader) *Meter { return &Meter{r: r} }

// Read implements [io.Reader].
func (m *Meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n.Add(int64(n))
	return n, err
}

// Count returns the number of bytes read.
func (m *Meter) Count() int64 { return m.n.Load() }
