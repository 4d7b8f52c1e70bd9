package client

import (
	"testing"
	"time"
)

// At a slow pace each answer in a row counts more. A denial begins a new row, although it lengthens
// the time between two requests by more than slowDown does.
func TestADenialEndsARowOfAnswersAtASlowPace(t *testing.T) {
	first := learned{every: slow + 10*time.Millisecond, seq: 1}
	second := first
	first.speedUp() // below slow, where learn takes the place of slowDown
	if first.every >= slow {
		t.Fatalf("a request each %v", first.every)
	}
	for _, l := range []*learned{&first, &second} {
		l.deny(time.Minute, ticket{seq: l.seq + 1, at: 59 * time.Second})
		l.every = time.Minute
		l.speedUp()
	}
	if first.every != second.every {
		t.Errorf("the first answer counts by where the pace was: %v and %v", first.every, second.every)
	}
}
