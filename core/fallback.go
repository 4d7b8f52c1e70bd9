package core

import (
	"sync"

	"github.com/weir-go/weir/internal/perbackend"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// fallbacks has what the limiters on a backend fall back to, unless they say: rules of one scope
// count together while the backend fails, too.
var fallbacks = perbackend.Shared[fallback]{New: func() *fallback {
	return &fallback{sync.OnceValue(func() limits.Backend { return memory.New(memory.Options{}) })}
}}

// fallback makes a Memory at the first call, and returns it at every call.
type fallback struct{ backend func() limits.Backend }
