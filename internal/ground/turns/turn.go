package turns

import (
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

// second is what clients round a wait up to: those of one second come back together.
const second = int64(time.Second / time.Microsecond)

// turn is an instant in microseconds since the Unix epoch. units is how many units of a window were
// promised for it, or the fraction of a microsecond that belongs to it, in parts of a rate's units.
type turn struct{ at, units int64 }

// after returns the turn of a request that finds a line which ends with last. natural is when the
// request fits if nothing else comes.
//
// A limit whose units come back together, at the end of a window, promises each window to as many
// units as it has. The others promise one unit after the other, at their pace.
func after(last turn, natural int64, d *Denial) turn {
	most, instances := d.Limit.Burst(), int64(max(1, min(d.Instances, mostInstances)))
	n := max(1, min(d.Cost, most))
	traits := &algorithm.Of(d.Limit.Algorithm()).Traits
	if traits.Values {
		n = 1
	}
	if !traits.Ends {
		units, period := pace(&d.Limit)
		fraction := last.units % units // of another limit if the limit has changed
		step := arith.MuldivPlus(n, period, fraction, units)
		if step > farthest {
			return turn{at: max(natural, last.at+farthest)}
		}
		step = arith.MuldivPlus(n*instances, period, fraction, units)
		if last.at+step <= natural {
			return turn{at: natural}
		}
		return turn{last.at + step, n*instances*period + fraction - step*units} // may wrap around twice
	}
	switch {
	case last.at < natural:
		return turn{natural, n * instances}
	case last.units+n <= most:
		return turn{last.at, last.units + n*instances}
	}
	windows := max(1, last.units/most)
	return turn{windowEnd(&d.Limit, last.at, windows), max(0, last.units-windows*most) + n*instances}
}

// pace returns at which rate the units of a limit are promised: its own, but in one second no more
// than the limit ever allows at once, since clients round up to seconds and come together.
func pace(limit *limits.Limit) (units, period int64) {
	rate, most := limit.Rate(), limit.Burst()
	if period = rate.Period.Microseconds(); arith.ProductExceeds(second, rate.Units, period, most) {
		return most, second
	}
	return rate.Units, period
}

// windowEnd returns the end of the n-th window of a limit that begins at an instant or later.
func windowEnd(limit *limits.Limit, at, n int64) int64 {
	if limit.Period() != "" {
		for range min(n, 2) { // two days are farther than any promise reaches
			_, end, _ := limit.Window(time.UnixMicro(at))
			at = end.UnixMicro()
		}
		return at
	}
	period := limit.Rate().Period.Microseconds()
	if algorithm.Of(limit.Algorithm()).Moves {
		period += second // it begins when the first client comes, which has rounded its wait up
	}
	n = max(n, arith.CeilDiv(second, period))
	return at + min(n, farthest/period+1)*period
}
