package adaptive

import (
	"testing"
	"time"
)

// In a queue all requests take longer, the fast ones, too: as many slow ones are new.
func TestAQueueIsNoMixtureOfSlowRequests(t *testing.T) {
	var b baseline
	b.low = 0.001
	b.mixture.add(time.Millisecond, 300)
	b.mixture.add(400*time.Millisecond, 50)
	for _, c := range []struct {
		what      string
		rate, low float64
		least     float64
		most      float64
	}{
		{"the client has left", 50, 0.4, 0.36, 0.43},
		{"it has left, and others have come", 90, 0.4, 0.36, 0.43},
		{"as many as before wait for 400 ms", 350, 0.401, 0.001, 0.001},
		{"some fast ones are left", 60, 0.001, 0.001, 0.001},
		{"fewer wait for 100 ms", 200, 0.1, 0.001, 0.001},
	} {
		w := seen{base: &b, like: b.like(c.rate, c.low, true)}
		if got := w.usual().low; got < c.least || got > c.most {
			t.Errorf("%s: the fastest usually take %.3f s, want %g to %g", c.what, got, c.least, c.most)
		}
	}
}
