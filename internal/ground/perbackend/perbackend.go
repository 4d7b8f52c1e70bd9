// Package perbackend keeps a value for each backend, which all wrappers and limiters of the backend
// share.
package perbackend

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/weir-go/weir/limits/backends"
)

// Shared keeps a T for each innermost backend, until the backend is garbage. T is a pointer type,
// so the compiler makes one copy of this code.
type Shared[T any] struct {
	New func() T

	mu   sync.Mutex
	byID map[identity]T
}

// identity identifies a backend without keeping it alive.
type identity struct {
	kind reflect.Type // the address alone may also be that of the first field
	at   weak.Pointer[byte]
}

// Of returns the T of the backend that b wraps, if that is a pointer. Otherwise it returns a new T:
// two equal values may be different backends, and so may two pointers to zero-size structs.
func (s *Shared[T]) Of(b backends.Backend) T {
	b = backends.Innermost(b)
	id, at := identityOf(b)
	if at == nil {
		return s.New()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shared, ok := s.byID[id]
	if !ok {
		shared = s.New()
		if s.byID == nil {
			s.byID = make(map[identity]T)
		}
		s.byID[id] = shared
		runtime.AddCleanup(at, s.forget, id)
	}
	runtime.KeepAlive(b)
	return shared
}

// Known returns the T that Of made for b, or nil.
func (s *Shared[T]) Known(b backends.Backend) (shared T) {
	b = backends.Innermost(b)
	id, at := identityOf(b)
	if at == nil {
		return shared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shared = s.byID[id]
	runtime.KeepAlive(b)
	return shared
}

// Len returns the number of backends that have a T.
func (s *Shared[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

func (s *Shared[T]) forget(id identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// identityOf returns the identity and the address of an innermost backend, or nil if it has no
// identity.
func identityOf(b backends.Backend) (id identity, at *byte) {
	v := reflect.ValueOf(b)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Size() == 0 {
		return id, nil
	}
	at = (*byte)(v.UnsafePointer())
	return identity{v.Type(), weak.Make(at)}, at
}
