package limitstest

import (
	"math/rand/v2"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmAnchoredWindow, model: anchoredModel{}, windows: true, moves: true,
		limit: limits.AnchoredWindow,
		typical: []limits.Limit{
			limits.AnchoredWindow(limits.PerHour(5000)),
			limits.AnchoredWindow(limits.PerMinute(10)),
		},
		extreme: []limits.Limit{
			limits.AnchoredWindow(limits.Per(1_000_000_000, 366*day)),
			limits.AnchoredWindow(limits.Per(13, 1001*us)),
			limits.AnchoredWindow(limits.Per(1, 1*ms)),
		},
		random: func(_ *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.AnchoredWindow(rate)
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.AnchoredWindow(limits.Per(most, l.Rate().Period))
		},
		alternating: []limits.Limit{
			limits.AnchoredWindow(limits.Per(30, 2*sec)),
			limits.AnchoredWindow(limits.PerDay(5)),
		},
		// closes in 50ms
		scenes: []scene{{limits.AnchoredWindow(limits.Per(30, 50*ms)), 30 * ms, []earlier{{cost: 1}}}},
		together: [4]limits.Decision{allowed(6, 60*sec, 60*sec), allowed(2, 60*sec, 60*sec),
			denied(2, 60*sec, 60*sec), allowed(0, 60*sec, 60*sec)},
	})
}

type anchoredModel struct{ windowModel }

// turned lets a window that closed without a debt be empty.
func (m anchoredModel) turned(u usage, x int64) usage {
	next := m.windowModel.turned(u, x)
	if next.at != u.at && next.curr == 0 {
		next.at = x
	}
	return next
}

func (m anchoredModel) plus(u usage, x, n int64) usage {
	opens := u.turned(x).curr == 0
	after := m.windowModel.plus(u, x, n)
	if opens {
		after.at = x
	}
	return after
}

// window is that of u if it is open, else the window that a taking would open. A window without
// units is not open.
func (m anchoredModel) window(u usage, x, now, left int64) int64 {
	start := x
	if u.curr > 0 && x-u.at < micros(u.limit) {
		start = u.at
	}
	return m.until(start+micros(u.limit), u, x, now, left)
}

func (anchoredModel) refundable(u usage, i int, e backends.Ending, _ int64) (least, most int64) {
	n := e.Taken - e.Final
	taken := u.events[i]
	switch {
	case taken.at < u.at: // the window before
		return 0, 0
	case taken.at == u.at && e.Final == 0 && u.curr > n:
		// The window of later takings would have opened later, unless they have the same instant.
		if u.with(withoutUnits(u.events, i)).at == u.at {
			return 0, n
		}
		return 0, 0
	}
	return n, n
}

// begun counts windows that end at least a period apart, however often the limit changes.
func (anchoredModel) begun(l limits.Limit, from, to int64) (int64, bool) {
	return ceil(ratio(to-from, micros(l), 1)) * l.Rate().Units, false
}
