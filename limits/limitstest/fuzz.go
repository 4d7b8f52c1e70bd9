package limitstest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Fuzz lets the fuzzing engine choose limits, keys, costs and instants, and
// compares every decision with that of [Exact], as Run does for random ones.
// A fuzz test of an implementation calls it and nothing else:
//
//	func FuzzMemory(f *testing.F) { limitstest.Fuzz(f, harness) }
//
// Run it with -fuzzminimizetime 10x: where a backend hashes with a random seed
// the same input takes other paths each time, and the engine would take a
// minute on each that it tries to minimize. A difference found is cut down
// anyway.
func Fuzz(f *testing.F, h Harness) {
	f.Helper()
	h = h.tolerating()
	h.keepsTime = keepsTime(f, h.Open)
	h.limits = selectionOf(f, h.Open(f, h.clockAt(newYear).now))
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 4))
		choices := make([]byte, 2000)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		// A call makes about ten choices of four bytes.
		length := min(len(choices)/40+1, scriptLength)
		h.improvise(t, everything, length, rand.New(&fuzzed{choices, rand.NewPCG(0, 0)}))
	})
}

// fuzzed is a source of numbers that somebody has chosen, as long as there are
// any.
type fuzzed struct {
	choices []byte
	after   rand.Source // a constant would be refused for ever where rand or a limit wants another
}

// Uint64 uses four bytes, for the high bits: rand uses those first.
func (f *fuzzed) Uint64() uint64 {
	if len(f.choices) < 4 {
		return f.after.Uint64()
	}
	next := binary.LittleEndian.Uint32(f.choices)
	f.choices = f.choices[4:]
	return uint64(next) << 32
}
