package remote

import "testing"

// A timer ends a block too, but it may come late, and does while a machine is suspended. Then
// one of the clocks stands still, or the wall clock has stepped back: the other one counts.
func TestABlockIsSpentFromItsAnswerToItsEndByBothClocks(t *testing.T) {
	const second = 1_000_000
	for name, c := range map[string]struct {
		now  instant
		fits bool
	}{
		"before the answer":                {instant{second + 99, second + 99}, false},
		"at the answer":                    {instant{second + 100, second + 100}, true},
		"just before the end":              {instant{second + 48_999, second + 48_999}, true},
		"at the end":                       {instant{second + 49_000, second + 49_000}, false},
		"the monotonic clock stood still":  {instant{second + 200, second + 49_000}, false},
		"the wall clock has stepped back":  {instant{second + 49_000, 0}, false},
		"it has stepped back in the lease": {instant{second + 48_999, 0}, true},
	} {
		b := &block{size: 10, sent: instant{second, second}, answered: instant{second + 100, second + 100}, spendFor: 49_000}
		b.units.Store(10)
		if got := b.spend(1, c.now); got != c.fits {
			t.Errorf("%s: spent %v, want %v", name, got, c.fits)
		}
		if got := b.left(c.now) > 0; got != c.fits && name != "before the answer" {
			t.Errorf("%s: units are left %v, want %v", name, got, c.fits)
		}
	}
}

func TestABlockThatIsOverTakesNothingBack(t *testing.T) {
	b := &block{size: 10, spendFor: 1000}
	b.units.Store(10)
	if b.spend(11, instant{}) || !b.spend(4, instant{}) || !b.giveBack(1) {
		t.Error("10 units, of which 4 are spent and 1 comes back")
	}
	if left := b.close(); left != 7 {
		t.Errorf("%d are left, want 7", left)
	}
	if b.giveBack(1) || b.spend(1, instant{}) || b.close() != 0 {
		t.Error("a block that is over has units")
	}
}
