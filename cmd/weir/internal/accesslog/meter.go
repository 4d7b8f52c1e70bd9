package accesslog

import (
	"io"
	"sync/atomic"
)

// Meter counts the bytes that were read through it. Other goroutines may ask for the count.
type Meter struct {
	r io.Reader
	n atomic.Int64
}

// NewMeter returns a meter of r.
func NewMeter(r io.Reader) *Meter { return &Meter{r: r} }

// Read implements [io.Reader].
func (m *Meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n.Add(int64(n))
	return n, err
}

// Count returns how many bytes were read.
func (m *Meter) Count() int64 { return m.n.Load() }
