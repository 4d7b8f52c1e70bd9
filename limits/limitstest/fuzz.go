package limitstest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Fuzz lets the fuzzing engine choose limits, keys, costs and instants, and compares every decision
// with that of [Exact]. A fuzz test of an implementation only calls Fuzz:
//
//	func FuzzMemory(f *testing.F) { limitstest.Fuzz(f, harness) }
//
// Run it with -fuzzminimizetime 10x. If a backend hashes with a random seed, one input takes a
// different path each time, and the engine would spend a minute on each input that it minimizes.
// Fuzz itself shortens the calls that lead to a difference.
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

// fuzzed is a source of random numbers from the bytes of the fuzzing engine, and then from another
// source.
type fuzzed struct {
	choices []byte
	after   rand.Source // not a constant: rand and the limits may reject that for ever
}

// Uint64 uses four bytes as the high bits, which rand uses first.
func (f *fuzzed) Uint64() uint64 {
	if len(f.choices) < 4 {
		return f.after.Uint64()
	}
	next := binary.LittleEndian.Uint32(f.choices)
	f.choices = f.choices[4:]
	return uint64(next) << 32
}
