package core

import (
	"reflect"
	"runtime"
	"sync"
	"weak"
)

// fallbacks has the fallback of every backend that limiters share, for as long
// as the backend is in use.
var fallbacks struct {
	sync.Mutex
	of map[backendIdentity]func() Backend
}

// backendIdentity names a backend without keeping it alive.
type backendIdentity struct {
	kind reflect.Type // a struct and its first field have one address
	at   weak.Pointer[byte]
}

// fallbackOf returns what makes the fallback of all limiters on b, a Memory, at
// the first call, and returns it at every call.
//
// Limiters share it if their backends have the same innermost backend and that
// is a pointer. Otherwise the fallback is the caller's own: values that are
// equal need not be one backend, and neither need pointers to nothing.
func fallbackOf(b Backend) func() Backend {
	b = innermost(b)
	v := reflect.ValueOf(b)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Size() == 0 {
		return sync.OnceValue(defaultMemory)
	}
	at := (*byte)(v.UnsafePointer())
	id := backendIdentity{v.Type(), weak.Make(at)}
	fallbacks.Lock()
	defer fallbacks.Unlock()
	fallback, ok := fallbacks.of[id]
	if !ok {
		fallback = sync.OnceValue(defaultMemory)
		if fallbacks.of == nil {
			fallbacks.of = make(map[backendIdentity]func() Backend)
		}
		fallbacks.of[id] = fallback
		runtime.AddCleanup(at, forgetFallback, id)
	}
	runtime.KeepAlive(b)
	return fallback
}

func forgetFallback(id backendIdentity) {
	fallbacks.Lock()
	defer fallbacks.Unlock()
	delete(fallbacks.of, id)
}

// maxWrappers ends the search for the innermost backend where wrappers go round
// in a circle.
const maxWrappers = 100

// innermost follows the Unwrap methods of b.
func innermost(b Backend) Backend {
	for range maxWrappers {
		inner := unwrap(b)
		if inner == nil {
			break
		}
		b = inner
	}
	return b
}

// unwrap returns the backend that b wraps, nil if b wraps none.
func unwrap(b Backend) Backend {
	w, ok := b.(interface{ Unwrap() Backend })
	if !ok {
		return nil
	}
	if inner := w.Unwrap(); !isNil(inner) {
		return inner
	}
	return nil
}

// isNil reports whether b is nil, or an interface that holds a nil pointer.
func isNil(b Backend) bool {
	v := reflect.ValueOf(b)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
