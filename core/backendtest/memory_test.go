package backendtest_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/backendtest"
	"github.com/weir-go/weir/limits"
)

var memory = backendtest.Harness{
	Open: func(_ testing.TB, now func() time.Time) limits.Backend {
		return core.NewMemory(core.MemoryOptions{Clock: now})
	},
	OpenSmall: func(_ testing.TB, now func() time.Time, maxKeys int) limits.Backend {
		// With the fewest entries of logs that there may be: they, too, have to run short.
		return core.NewMemory(core.MemoryOptions{Clock: now, MaxKeys: maxKeys, MaxLogEntries: 1})
	},
}

func TestMemoryKeepsTheContract(t *testing.T) { backendtest.Run(t, memory) }

func FuzzMemory(f *testing.F) { backendtest.Fuzz(f, memory) }
