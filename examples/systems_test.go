package examples

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
)

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
func redisOf(t *testing.T, addr, prefix string) core.Backend {
	t.Helper()
	backend, err := redisbackend.Open("redis://"+addr, redisbackend.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	return backend
}

// use charges a key.
func use(t *testing.T, backend core.Backend, charge core.Charge) core.Decision {
	t.Helper()
	out := make([]core.Decision, 1)
	if err := backend.Take(context.Background(), []core.Charge{charge}, out); err != nil || !out[0].Allowed {
		t.Fatalf("cannot use %d units of %q: %v, %+v", charge.Cost, charge.Scope, err, out[0])
	}
	return out[0]
}

func TestASystemIsShort(t *testing.T) {
	files, err := filepath.Glob("systems/*/main.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %d (%v)", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if n := strings.Count(string(text), "\n"); err != nil || n > 120 {
			t.Errorf("%s has %d lines (%v), want 120 at most: it is to be copied", file, n, err)
		}
		if comment, _, _ := strings.Cut(string(text), "\npackage main\n"); strings.Count(comment, "curl ") < 2 || !strings.Contains(comment, "docs/systems.md") {
			t.Errorf("%s does not begin with commands to try and the name of its guide:\n%s", file, comment)
		}
	}
}
