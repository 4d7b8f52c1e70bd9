// Package sync replaces package sync of the standard library: see interleave.
package sync

import (
	"sync"
	"unsafe"

	"github.com/weir-go/weir/internal/proof/interleave"
)

// Mutex is a mutex.
type Mutex struct {
	held bool
	real sync.Mutex // for the race detector
}

// Lock locks m.
//
//go:norace
func (m *Mutex) Lock() {
	interleave.Step(unsafe.Pointer(m), interleave.Locks, &m.held)
	m.held = true
	m.real.Lock()
}

// Unlock unlocks m.
//
//go:norace
func (m *Mutex) Unlock() {
	interleave.Step(unsafe.Pointer(m), interleave.Unlocks, nil)
	m.held = false
	m.real.Unlock()
}

// Pool is a pool that drops nothing. The object that was put last is got first.
type Pool struct {
	New  func() any
	lock sync.Mutex
	all  []any
}

// SharedPool is a Pool whose operations are those of a task.
type SharedPool struct{ Pool }

// Get returns an object of p, or a new one.
func (p *SharedPool) Get() any {
	interleave.Step(unsafe.Pointer(p), interleave.Writes, nil)
	return p.Pool.Get()
}

// Put adds an object to p.
func (p *SharedPool) Put(object any) {
	interleave.Step(unsafe.Pointer(p), interleave.Writes, nil)
	p.Pool.Put(object)
}

// OnceValue returns a function that calls f once.
func OnceValue[T any](f func() T) func() T { return sync.OnceValue(f) }

// Get returns an object of p, or a new one.
func (p *Pool) Get() any {
	p.lock.Lock()
	if n := len(p.all); n > 0 {
		last := p.all[n-1]
		p.all = p.all[:n-1]
		p.lock.Unlock()
		return last
	}
	p.lock.Unlock()
	return p.New() // which may suspend the task
}

// Put adds an object to p.
func (p *Pool) Put(object any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.all = append(p.all, object)
}
