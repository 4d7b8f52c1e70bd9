package workload

import "math/rand/v2"

// Sequence is a series of keys in the order of use. Their bytes are adjacent in that order, so the
// processor has fetched a key before its use, like the address of a request that has just arrived:
// the benchmark times the cache misses of the store, not those of the harness. No key shares its
// bytes with the string that was put into a store. The garbage collector does not scan a Sequence.
type Sequence struct {
	text  string
	start []uint32 // start[i] to start[i+1] is key i
}

// Len returns the number of keys in s.
func (s *Sequence) Len() int { return len(s.start) - 1 }

// Key returns the i-th key of s, without allocating.
func (s *Sequence) Key(i int) string { return s.text[s.start[i]:s.start[i+1]] }

// length is the number of keys in a sequence of many keys before it repeats.
const length = 1 << 21

// One returns a sequence of a single key.
func One() *Sequence {
	return newSequence(1, func() int { return 0 })
}

// Of returns a sequence of the given key.
func Of(key string) *Sequence {
	return &Sequence{key, []uint32{0, uint32(len(key))}}
}

// Uniform returns a sequence with equal frequencies of n keys.
func Uniform(n int) *Sequence {
	random := rand.New(rand.NewPCG(1, 2))
	return newSequence(length, func() int { return random.IntN(n) })
}

// Zipf returns a sequence of n keys with frequencies that fall with the power 1.1 of their rank: of
// 1,000,000 keys the first gets about one request in eight, and the first thousand get two thirds.
// The ranks are independent of the order of insertion.
func Zipf(n int) *Sequence {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(3, 4)), 1.1, 1, uint64(n-1))
	key := rand.New(rand.NewPCG(5, 6)).Perm(n)
	return newSequence(length, func() int { return key[zipf.Uint64()] })
}

func newSequence(n int, next func() int) *Sequence {
	text := make([]byte, 0, n*len("255.255.255.255"))
	start := make([]uint32, 1, n+1)
	for range n {
		text = AppendKey(text, next())
		start = append(start, uint32(len(text)))
	}
	return &Sequence{string(text), start}
}
