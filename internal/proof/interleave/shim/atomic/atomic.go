// Package atomic replaces package sync/atomic of the standard library: see interleave.
package atomic

import (
	"sync/atomic"
	"unsafe"

	"github.com/weir-go/weir/internal/proof/interleave"
)

// Pointer is an atomic *T.
type Pointer[T any] struct {
	value[*T, atomic.Pointer[T], *atomic.Pointer[T]]
}

// Bool is an atomic bool.
type Bool struct {
	value[bool, atomic.Bool, *atomic.Bool]
}

// Uint64 is an atomic uint64.
type Uint64 struct {
	value[uint64, atomic.Uint64, *atomic.Uint64]
}

// Int64 is an atomic int64.
type Int64 struct {
	value[int64, atomic.Int64, *atomic.Int64]
}

// Add adds n. It does not return the sum, so that Adds commute.
func (v *Int64) Add(n int64) { v.step(interleave.Adds); v.real.Add(n) }

// Uint32 is an atomic uint32.
type Uint32 struct {
	value[uint32, atomic.Uint32, *atomic.Uint32]
}

// Add adds n and returns the sum.
func (v *Uint32) Add(n uint32) uint32 { v.step(interleave.Writes); return v.real.Add(n) }

// value has the methods that all of them have. Real is the type of the standard library.
type value[T, Real any, P interface {
	*Real
	Load() T
	Store(T)
	Swap(T) T
	CompareAndSwap(from, to T) bool
}] struct{ real Real }

func (v *value[T, Real, P]) Load() T     { v.step(interleave.Reads); return P(&v.real).Load() }
func (v *value[T, Real, P]) Store(to T)  { v.step(interleave.Writes); P(&v.real).Store(to) }
func (v *value[T, Real, P]) Swap(to T) T { v.step(interleave.Writes); return P(&v.real).Swap(to) }
func (v *value[T, Real, P]) CompareAndSwap(from, to T) bool {
	v.step(interleave.Writes)
	return P(&v.real).CompareAndSwap(from, to)
}

func (v *value[T, Real, P]) step(k interleave.Kind) { interleave.Step(unsafe.Pointer(v), k, nil) }

// LoadUint64 returns *p.
func LoadUint64(p *uint64) uint64 {
	interleave.Step(unsafe.Pointer(p), interleave.Reads, nil)
	return atomic.LoadUint64(p)
}
