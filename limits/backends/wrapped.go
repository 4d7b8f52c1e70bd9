package backends

import "github.com/weir-go/weir/internal/ground/isnil"

// maxWrappers ends a search through backends that wrap each other in a cycle.
const maxWrappers = 100

// Innermost follows the methods Unwrap() Backend from b to the backend that wraps no other one.
func Innermost(b Backend) Backend {
	for range maxWrappers {
		inner := unwrap(b)
		if inner == nil {
			break
		}
		b = inner
	}
	return b
}

// As returns the first T among b and the backends that it wraps.
func As[T any](b Backend) (first T, ok bool) {
	for range maxWrappers {
		if first, ok = b.(T); ok || b == nil {
			break
		}
		b = unwrap(b)
	}
	return first, ok
}

// unwrap returns the backend that b wraps, or nil.
func unwrap(b Backend) Backend {
	if w, ok := b.(interface{ Unwrap() Backend }); ok {
		if inner := w.Unwrap(); !isnil.Of(inner) {
			return inner
		}
	}
	return nil
}
