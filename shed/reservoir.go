package shed

import "time"

// reservoir keeps a uniform draw from the durations that were added.
type reservoir struct {
	drawn []time.Duration
	seen  int
	total time.Duration
}

func (r *reservoir) clear() { r.drawn, r.seen, r.total = r.drawn[:0], 0, 0 }

func (r *reservoir) add(d time.Duration, keep int, random *uint64) {
	r.seen++
	r.total += d
	if len(r.drawn) < keep {
		r.drawn = append(r.drawn, d)
		return
	}
	if i := pick(random, r.seen); i < len(r.drawn) {
		r.drawn[i] = d
	}
}

// pick returns a random number below n. The generator is splitmix64, so a simulation gives the same
// result each time.
func pick(random *uint64, n int) int {
	*random += golden
	return int(mix(*random) % uint64(n))
}

const golden = 0x9e3779b97f4a7c15 // the step of splitmix64

// mix is the last steps of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
