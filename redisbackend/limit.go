package redisbackend

import (
	"strconv"

	"github.com/weir-go/weir/core"
)

// algorithms are the letters by which scripts and states name algorithms.
var algorithms = [...]byte{
	core.AlgorithmTokenBucket:   't',
	core.AlgorithmLeakyBucket:   'l',
	core.AlgorithmLeakyQueue:    'q',
	core.AlgorithmFixedWindow:   'f',
	core.AlgorithmSlidingWindow: 's',
	core.AlgorithmSlidingLog:    'g',
}

const version = '1'

// encode returns a legal limit as take.lua reads it: version and algorithm, the
// most units ever held, and P and Q, where a unit comes with every P/Q
// microseconds, in lowest terms for buckets.
func encode(l core.Limit) string {
	rate := l.Rate()
	p, q := rate.Period.Microseconds(), rate.Units
	switch l.Algorithm() {
	case core.AlgorithmTokenBucket, core.AlgorithmLeakyBucket, core.AlgorithmLeakyQueue:
		g := gcd(p, q)
		p, q = p/g, q/g
	}
	var room [64]byte
	text := append(room[:0], version, algorithms[l.Algorithm()], ' ')
	text = append(strconv.AppendInt(text, l.Burst(), 10), ' ')
	text = append(strconv.AppendInt(text, p, 10), ' ')
	return string(strconv.AppendInt(text, q, 10))
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
