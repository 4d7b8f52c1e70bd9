package tokens

import (
	"cmp"
	"math"
	"math/bits"
)

// Price is the price of a million tokens, in units of the limits of [ByPrice] rules. If a unit is a
// millionth of a dollar and a model costs 2.50 dollars for a million tokens, Input is 2_500_000. A
// limit has at most 10⁹ units, so choose a larger unit for budgets above a thousand dollars.
type Price struct {
	Input       int64
	Cached      int64 // of input that was read from a cache; 0: as Input
	CacheWrites int64 // of input that was written to a cache, the dearest way; 0: as Input
	Output      int64 // reasoning included
}

// million is how many tokens a Price is for.
const million = 1_000_000

// cost returns the price of u, rounded up, at most math.MaxInt64.
func (p Price) cost(u Usage) int64 {
	var hi, lo uint64 // below 4·(2^63)², so it does not overflow
	for _, part := range [...]struct{ tokens, price int64 }{
		{u.Input - u.Cached - u.CacheWrites, p.Input},
		{u.Cached, cmp.Or(p.Cached, p.Input)},
		{u.CacheWrites, cmp.Or(p.CacheWrites, p.Input)},
		{u.Output, p.Output},
	} {
		h, l := bits.Mul64(uint64(part.tokens), uint64(part.price))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	if hi >= million {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, lo, million)
	if quotient >= math.MaxInt64 {
		return math.MaxInt64
	}
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// atMost returns the price of input of the dearest kind.
func (p Price) atMost() Price {
	p.Input = max(p.Input, p.Cached, p.CacheWrites)
	return p
}
