package family

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/limits"
)

// 25 units in a window of 10 leave 15 for the windows after it: 10 for the first, 5 for the second.
func TestEachWindowTakesOffItsMaximumOfADebt(t *testing.T) {
	_, l := Compile(limits.FixedWindow(limits.Per(10, 10*time.Second)))
	for _, test := range []struct{ debt, after, left, untilOne, untilTen, untilFresh int64 }{
		{0, 1, 0, 1, 1, 1},
		{1, 1, 1, 1, 2, 2},
		{9, 1, 9, 1, 2, 2},
		{10, 1, 10, 2, 2, 2},
		{15, 1, 15, 2, 3, 3},
		{15, 2, 5, 2, 3, 3},
		{15, 3, 0, 2, 3, 3},
		{20, 2, 10, 3, 3, 3},
		{1 << 62, 1 << 62, 0, 1 + l.mostWindows(), 1 + l.mostWindows(), 1 + l.mostWindows()},
	} {
		if got := l.owed(test.debt, test.after); got != test.left {
			t.Errorf("%d owed: %d after %d windows, want %d", test.debt, got, test.after, test.left)
		}
		one, ten, fresh := l.windowsUntilFits(test.debt, 1), l.windowsUntilFits(test.debt, 10), l.windowsUntilFresh(test.debt)
		if one != test.untilOne || ten != test.untilTen || fresh != test.untilFresh {
			t.Errorf("%d owed: 1 fits after %d windows, 10 after %d, fresh after %d: want %+v", test.debt, one, ten, fresh, test)
		}
	}
	if got := l.mostWindows(); got != 2*bounds.BucketFill/10_000_000 {
		t.Errorf("%d windows are 200 years", got)
	}
}

func TestAKeyOwesTheMaximumAtMost(t *testing.T) {
	_, l := Compile(limits.FixedWindow(limits.Per(10, 10*time.Second)))
	for _, test := range []struct {
		n, inUse,
		want int64
	}{{5, 0, 5}, {25, 0, 20}, {5, 15, 5}, {6, 15, 5}, {1, 20, 0}, {1, 99, 0}} {
		if got := l.owable(test.n, test.inUse); got != test.want {
			t.Errorf("%d in use: %d of %d are owed, want %d", test.inUse, got, test.n, test.want)
		}
	}
	for _, test := range []struct{ units, debt, added, want int64 }{
		{10, 0, 10, 0}, {12, 0, 12, 2}, {12, 0, 1, 1}, {12, 1, 5, 2}, {9, 3, 0, 0}, {12, 5, 0, 2},
		{30, 0, 0, 0}, // the limit was lowered: what was taken is not owed
	} {
		if got := l.owing(test.units, test.debt, test.added); got != test.want {
			t.Errorf("%+v: %d are owed", test, got)
		}
	}
}

// Limits of one form read each other's states.
func TestAStateCarriesOverToLimitsOfItsForm(t *testing.T) {
	for _, test := range [][2]limits.Limit{
		{limits.FixedWindow(limits.PerMinute(1)), limits.FixedWindow(limits.PerHour(1))},
		{limits.FixedWindow(limits.PerMinute(1)), limits.SlidingWindow(limits.PerMinute(1))},
		{limits.TokenBucket(limits.PerMinute(1), 1), limits.TokenBucket(limits.PerMinute(2), 1)},
		{limits.Calendar(1, limits.Day), limits.Calendar(1, limits.Day.In("Europe/Berlin"))},
	} {
		_, from := Compile(test[0])
		if _, to := Compile(test[1]); to.Carries(&from) {
			t.Errorf("%v carries over to %v", test[0], test[1])
		}
	}
}
