package tokens

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// Price is the price of a million tokens, in units of the limits of [ByPrice] rules. If a unit is a
// millionth of a dollar and a model costs 2.50 dollars for a million tokens, Input is 2_500_000. A
// limit has at most 10⁹ units, so choose a larger unit for budgets above a thousand dollars.
type Price struct {
	Input       int64
	Cached      int64 // of input that was read from a cache; 0: as Input
	CacheWrites int64 // of input that was written to a cache; 0: as Input
	HourWrites  int64 // of input that a cache keeps for an hour; 0: as CacheWrites
	Audio       int64 // of input that is sound; 0: as Input
	Images      int64 // of input that is pictures or videos; 0: as Input
	Output      int64
	Reasoning   int64 // of output that was thoughts; 0: as Output
	AudioOutput int64 // 0: as Output
	ImageOutput int64 // 0: as Output

	// Calls is the price of a million calls of tools that the server runs, such as searches of the
	// web. Only the answer tells them, so they are not in an estimate.
	Calls int64

	// Tiers are the prices of tiers of service, by the names that answers tell: "flex", "priority",
	// "batch" or "fast". Another tier has this Price.
	Tiers map[string]Price

	// Longer are the prices of requests with more input than the key says.
	Longer map[int64]Price
}

// million is how many tokens a Price is for.
const million = 1_000_000

// of returns the price for a tier and an input.
func (p Price) of(tier string, input int64) Price {
	if t, ok := p.Tiers[tier]; ok {
		p = t
	}
	for {
		above := int64(-1)
		for from := range p.Longer {
			if from < input {
				above = max(above, from)
			}
		}
		if above < 0 {
			return p
		}
		p = p.Longer[above]
	}
}

// sum is a sum of prices. The zero sum is 0.
type sum struct {
	hi, lo uint64
	isMore bool // than 128 bits
}

// add adds the price p of u.
func (s *sum) add(p Price, u Usage) {
	writes := cmp.Or(p.CacheWrites, p.Input)
	for _, part := range [...]struct{ tokens, price int64 }{
		{u.Input - u.Cached - u.CacheWrites - u.Audio - u.Images, p.Input},
		{u.Cached, cmp.Or(p.Cached, p.Input)},
		{u.CacheWrites - u.HourWrites, writes},
		{u.HourWrites, cmp.Or(p.HourWrites, writes)},
		{u.Audio, cmp.Or(p.Audio, p.Input)},
		{u.Images, cmp.Or(p.Images, p.Input)},
		{u.Output - u.Reasoning - u.AudioOutput - u.ImageOutput, p.Output},
		{u.Reasoning, cmp.Or(p.Reasoning, p.Output)},
		{u.AudioOutput, cmp.Or(p.AudioOutput, p.Output)},
		{u.ImageOutput, cmp.Or(p.ImageOutput, p.Output)},
		{u.Calls, p.Calls},
	} {
		hi, lo := bits.Mul64(uint64(part.tokens), uint64(part.price))
		var carry uint64
		s.lo, carry = bits.Add64(s.lo, lo, 0)
		s.hi, carry = bits.Add64(s.hi, hi, carry)
		s.isMore = s.isMore || carry > 0
	}
}

// units returns the sum in units, rounded up, at most math.MaxInt64.
func (s *sum) units() int64 {
	if s.isMore || s.hi >= million {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(s.hi, s.lo, million)
	if quotient >= math.MaxInt64 {
		return math.MaxInt64
	}
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// atMost returns the price of the dearest kind of input and of output, in the dearest tier, for a
// request with this input.
func (p Price) atMost(input int64) Price {
	most := p.of("", input).dearest()
	for tier := range p.Tiers {
		most = most.or(p.of(tier, input).dearest())
	}
	return most
}

// dearest returns the prices of the dearest input and output of p.
func (p Price) dearest() Price {
	return Price{
		Input:  max(p.Input, p.Cached, p.CacheWrites, p.HourWrites, p.Audio, p.Images),
		Output: max(p.Output, p.Reasoning, p.AudioOutput, p.ImageOutput),
	}
}

// ever returns the prices of the dearest input and output of p, in all tiers and lengths.
func (p Price) ever() Price {
	most := p.dearest()
	for _, inner := range []iter.Seq[Price]{maps.Values(p.Tiers), maps.Values(p.Longer)} {
		for price := range inner {
			most = most.or(price.ever())
		}
	}
	return most
}

// or returns the dearer input and output of p and o.
func (p Price) or(o Price) Price {
	return Price{Input: max(p.Input, o.Input), Output: max(p.Output, o.Output)}
}

// clone returns a copy that shares nothing with p.
func (p Price) clone() Price {
	p.Tiers, p.Longer = maps.Clone(p.Tiers), maps.Clone(p.Longer)
	for tier, price := range p.Tiers {
		p.Tiers[tier] = price.clone()
	}
	for from, price := range p.Longer {
		p.Longer[from] = price.clone()
	}
	return p
}

// check calls report for each number of p, with the name of its field.
func (p Price) check(report func(n int64, field string)) {
	for _, n := range [...]struct {
		n     int64
		field string
	}{
		{p.Input, "input"}, {p.Cached, "cached"}, {p.CacheWrites, "cache writes"},
		{p.HourWrites, "hour writes"}, {p.Audio, "audio"}, {p.Images, "images"},
		{p.Output, "output"}, {p.Reasoning, "reasoning"}, {p.AudioOutput, "audio output"},
		{p.ImageOutput, "image output"}, {p.Calls, "calls"},
	} {
		report(n.n, n.field)
	}
	for _, tier := range slices.Sorted(maps.Keys(p.Tiers)) {
		p.Tiers[tier].check(func(n int64, field string) {
			report(n, fmt.Sprintf("tier %.30q: %s", tier, field))
		})
	}
	for _, from := range slices.Sorted(maps.Keys(p.Longer)) {
		report(from, "longer")
		p.Longer[from].check(func(n int64, field string) {
			report(n, fmt.Sprintf("longer than %d: %s", from, field))
		})
	}
}
