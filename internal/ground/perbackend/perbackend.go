// Package perbackend keeps what all that stands before one backend shares.
package perbackend

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/weir-go/weir/limits/backends"
)

// Shared keeps a T for each innermost backend, for as long as the backend is in use. T is a pointer:
// of all pointers there is one copy of the code.
type Shared[T any] struct {
	New func() T

	mu sync.Mutex
	of map[identity]T
}

// identity names a backend without keeping it alive.
type identity struct {
	kind reflect.Type // a struct and its first field have one address
	at   weak.Pointer[byte]
}

// Of returns the T of b. Those that wrap the same innermost backend have the same, if that is a
// pointer. Otherwise it is the caller's own: values that are equal need not be one backend, and
// neither need pointers to nothing.
func (s *Shared[T]) Of(b backends.Backend) T {
	b = backends.Innermost(b)
	id, at := identityOf(b)
	if at == nil {
		return s.New()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shared, ok := s.of[id]
	if !ok {
		shared = s.New()
		if s.of == nil {
			s.of = make(map[identity]T)
		}
		s.of[id] = shared
		runtime.AddCleanup(at, s.forget, id)
	}
	runtime.KeepAlive(b)
	return shared
}

// Known returns the T that Of has made for b, or nil.
func (s *Shared[T]) Known(b backends.Backend) (shared T) {
	b = backends.Innermost(b)
	id, at := identityOf(b)
	if at == nil {
		return shared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shared = s.of[id]
	runtime.KeepAlive(b)
	return shared
}

// Len returns the number of backends that have a T.
func (s *Shared[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

func (s *Shared[T]) forget(id identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// identityOf returns the identity of an innermost backend and where it is, nil if it has
// none.
func identityOf(b backends.Backend) (id identity, at *byte) {
	v := reflect.ValueOf(b)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Size() == 0 {
		return id, nil
	}
	at = (*byte)(v.UnsafePointer())
	return identity{v.Type(), weak.Make(at)}, at
}
