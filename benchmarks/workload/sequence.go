package workload

import "math/rand/v2"

// Sequence is a series of keys in the order in which they are asked for. Their
// bytes lie one after the other in that order, so that the processor has
// fetched a key before it is used, as it has the address of a request that just
// arrived: what is timed is the store's cache misses and not the harness's. No
// key shares its bytes with the string that was put into a store. It holds no
// pointers to speak of, so the garbage collector does not scan it.
type Sequence struct {
	text  string
	start []uint32 // start[i] to start[i+1] is key i
}

// Len returns the number of keys in s.
func (s *Sequence) Len() int { return len(s.start) - 1 }

// Key returns the i-th key of s, without allocating.
func (s *Sequence) Key(i int) string { return s.text[s.start[i]:s.start[i+1]] }

// length is how many keys a sequence over many keys has before it repeats.
const length = 1 << 21

// One is the sequence that asks for one key again and again.
func One() *Sequence {
	return newSequence(1, func() int { return 0 })
}

// Of is the sequence that asks for the given key again and again.
func Of(key string) *Sequence {
	return &Sequence{key, []uint32{0, uint32(len(key))}}
}

// Uniform asks for each of n keys equally often.
func Uniform(n int) *Sequence {
	random := rand.New(rand.NewPCG(1, 2))
	return newSequence(length, func() int { return random.IntN(n) })
}

// Zipf asks for n keys with frequencies that fall with the power 1.1 of their
// rank: of 1,000,000 the first gets about one request in eight, and the first
// thousand two thirds. Which keys are the frequent ones has nothing to do with
// the order in which they were inserted.
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
