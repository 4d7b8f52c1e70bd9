package limitstest_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
)

var store = limitstest.Harness{
	Open: func(_ testing.TB, now func() time.Time) backends.Backend {
		return memory.MustNew(memory.Options{Clock: now})
	},
	OpenSmall: func(_ testing.TB, now func() time.Time, maxKeys int) backends.Backend {
		// With the fewest entries of logs that there may be: they, too, have to run short.
		return memory.MustNew(memory.Options{Clock: now, MaxKeys: maxKeys, MaxLogEntries: 1})
	},
}

func TestMemoryKeepsTheContract(t *testing.T) { limitstest.Run(t, store) }

func FuzzMemory(f *testing.F) { limitstest.Fuzz(f, store) }
