package adaptive

import (
	"math"
	"time"
)

const (
	mixtureLeast = time.Millisecond // and faster requests are one
	mixtureSteps = 4                // parts of a doubling
	mixtureParts = 64               // up to 65 s; slower ones are with the last

	// Requests are of two kinds if hardly any take a time between: in mixtureSteps parts, less than
	// this part of all.
	fewBetween = 0.02

	// A window without fast requests may have that many times as many slow ones as usual.
	moreSlow = 2

	// If times lie between, too, fast requests are missing only if so small a part of all completes,
	// and the slow ones take this many doublings longer.
	missing, muchSlower = 2.0 / 3, 2
)

// mixture says how many requests of a route complete a second, by how long they take: part i has
// those of mixtureLeast·2^(i/mixtureSteps) and longer.
type mixture [mixtureParts]float64

// add adds n requests a second that take d.
func (m *mixture) add(d time.Duration, n float64) { m[partOf(d.Seconds())] += n }

func partOf(seconds float64) int {
	i := mixtureSteps * math.Log2(seconds/mixtureLeast.Seconds())
	return int(min(max(i, 0), mixtureParts-1))
}

// startOf returns the time in seconds at which part i begins.
func startOf(i float64) float64 { return mixtureLeast.Seconds() * math.Exp2(i/mixtureSteps) }

// learn moves m towards other.
func (m *mixture) learn(other *mixture, part float64) {
	for i := range m {
		m[i] += (other[i] - m[i]) * part
	}
}

// slow returns from which part on requests of m are like those of a window without fast ones, in
// which rate requests completed a second and the fastest took low seconds. fast is what the fastest
// of m take. Without a gap in m the window may be one with a queue, so slow trusts it only while no
// request is shed. 0: fast requests are not missing.
func (m *mixture) slow(rate, low, fast float64, sheds bool) (from int) {
	total := 0.0
	for _, n := range m {
		total += n
	}
	few := fewBetween * total
	far := mixtureParts // without a gap, slow requests begin there
	if !sheds && rate <= missing*total {
		far = partOf(fast) + muchSlower*mixtureSteps
	}
	faster, between := 0.0, 0.0
	for i := range partOf(low) + 1 {
		if i >= mixtureSteps {
			apart := between < few && faster > few || i >= far
			if apart && m[i] > 0 && rate <= moreSlow*(total-faster) {
				from = i
			}
			between -= m[i-mixtureSteps]
		}
		faster += m[i]
		between += m[i]
	}
	return from
}

// figures returns those of the part from on.
func (m *mixture) figures(from int) (f figures) {
	rate, sum, squares := 0.0, 0.0, 0.0
	for i := from; i < mixtureParts; i++ {
		d := startOf(float64(i) + 0.5)
		rate += m[i]
		sum += m[i] * d
		squares += m[i] * d * d
	}
	f.mean, f.spread = sum/rate, squares/sum
	faster := lowQuantile * rate
	for i := from; i < mixtureParts; i++ {
		if faster <= m[i] {
			f.low = startOf(float64(i) + faster/m[i])
			break
		}
		faster -= m[i]
	}
	return f
}
