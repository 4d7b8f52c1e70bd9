package family

import "testing"

// A log of 10,000 units, the most, owes 10,000 more at most.
func TestTheNumbersOfALogHaveRoomForTheLargest(t *testing.T) {
	s := LogOf(65_535, 7).With(65_535, 65_534, 1<<32-1, 1<<32-2)
	if s.Sum() != 65_535 || s.Latest() != 65_534 || s.Pending() != 0 || s.Head() != 1<<32-1 || s.Tail() != 1<<32-2 {
		t.Errorf("%d, %d, %d, list %d to %d", s.Sum(), s.Latest(), s.Pending(), s.Head(), s.Tail())
	}
}
