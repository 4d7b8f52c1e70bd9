package core

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// common is what all limiters on one innermost backend share.
type common struct {
	fallback func() limits.Backend // makes a Memory at the first call, returns it at every call
	sender   *sender
}

// commons has what the limiters on a backend share, for as long as the backend is in use.
var commons struct {
	sync.Mutex
	of map[backendIdentity]*common
}

// backendIdentity names a backend without keeping it alive.
type backendIdentity struct {
	kind reflect.Type // a struct and its first field have one address
	at   weak.Pointer[byte]
}

func newCommon() *common {
	return &common{sync.OnceValue(func() limits.Backend { return memory.New(memory.Options{}) }), newSender()}
}

// commonOf returns what all limiters on b share.
//
// Limiters share it if their backends have the same innermost backend and that
// is a pointer. Otherwise it is the caller's own: values that are equal need not be
// one backend, and neither need pointers to nothing.
func commonOf(b limits.Backend) *common {
	b = limits.Innermost(b)
	id, at := identityOf(b)
	if at == nil {
		return newCommon()
	}
	commons.Lock()
	defer commons.Unlock()
	c, ok := commons.of[id]
	if !ok {
		c = newCommon()
		if commons.of == nil {
			commons.of = make(map[backendIdentity]*common)
		}
		commons.of[id] = c
		runtime.AddCleanup(at, forgetCommon, id)
	}
	runtime.KeepAlive(b)
	return c
}

// knownCommonOf is commonOf, but nil if no limiter on b has asked for it, or each has its own.
func knownCommonOf(b limits.Backend) *common {
	b = limits.Innermost(b)
	id, at := identityOf(b)
	if at == nil {
		return nil
	}
	commons.Lock()
	defer commons.Unlock()
	c := commons.of[id]
	runtime.KeepAlive(b)
	return c
}

// identityOf returns the identity of an innermost backend and where it is, nil if it has
// none.
func identityOf(b limits.Backend) (id backendIdentity, at *byte) {
	v := reflect.ValueOf(b)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Size() == 0 {
		return id, nil
	}
	at = (*byte)(v.UnsafePointer())
	return backendIdentity{v.Type(), weak.Make(at)}, at
}

func forgetCommon(id backendIdentity) {
	commons.Lock()
	defer commons.Unlock()
	delete(commons.of, id)
}

// isNil reports whether b is nil, or an interface with a nil pointer in it.
func isNil(b limits.Backend) bool {
	v := reflect.ValueOf(b)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
