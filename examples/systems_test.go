package examples

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// systems returns the names of the systems' programs.
func systems(t *testing.T) (names []string) {
	t.Helper()
	mains, err := filepath.Glob("systems/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("found no programs (%v)", err)
	}
	for _, main := range mains {
		names = append(names, filepath.Dir(main))
	}
	return names
}

// onBoth runs test on a system in memory, and on Redis with what forgets a key of it there.
func onBoth(t *testing.T, name string, test func(t *testing.T, url string), env ...string) {
	t.Helper()
	program := build(t, "systems/"+name)
	t.Run("memory", func(t *testing.T) { test(t, launch(t, program, env...)) })
	t.Run("redis", func(t *testing.T) {
		addr := freeAddr(t)
		startRedisServer(t, addr)
		test(t, launch(t, program, append(env, "REDIS_URL=redis://"+addr)...))
	})
}

// redisOf returns the backend of a system on the Redis at addr, for a test that changes what
// keys have used: as if time had passed, or much had been asked.
func redisOf(t *testing.T, addr, prefix string) backends.Backend {
	t.Helper()
	backend, err := redisbackend.Open("redis://"+addr, redisbackend.Options{Prefix: prefix, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	return backend
}

// use charges a key.
func use(t *testing.T, backend backends.Backend, charge backends.Charge) limits.Decision {
	t.Helper()
	out := make([]limits.Decision, 1)
	if err := backend.Take(context.Background(), []backends.Charge{charge}, out); err != nil || !out[0].Allowed {
		t.Fatalf("cannot use %d units of %q: %v, %+v", charge.Cost, charge.Scope, err, out[0])
	}
	return out[0]
}
