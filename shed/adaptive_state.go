package shed

import "github.com/weir-go/weir/internal/ground/shedlimit"

// state says how the adaptive algorithm takes a window.
type state uint8

const (
	steady   state = iota // learns, raises the limit, or begins a decrease
	draining              // waits until requests from before a decrease have ended
	settling              // waits until those that began behind them have ended
	trying                // compares the time after a deep decrease with that before
	probing               // the same after a decrease that is made to learn
	stuck                 // waits while most requests in flight hang
)

func (s state) String() string {
	return [...]string{"steady", "draining", "settling", "trying", "probing", "stuck"}[s]
}

// next returns the state that follows the state at. Only Update writes a.state.
//
//	from      when                                                to
//	any       more than half of the requests in flight hang       stuck
//	steady    many wait, or are late: the limit falls by much     draining, then trying
//	          the limit falls by little                           draining, then steady
//	          requests are limited, and baselines are old         draining, then probing
//	draining  the limit is kept again, or time is up              settling
//	settling  a window has none that began before                 a.after
//	trying    the decrease helped, or the load has fallen         steady
//	          it cost throughput, and is undone                   settling, then steady
//	probing   as trying
//	stuck     as draining, once requests no longer hang           settling, then steady
func (a *adaptive) next(at state, s *shedlimit.Sample, w *view) state {
	if w.stuck(s) {
		at = stuck
	}
	switch at {
	case draining:
		return a.draining(s, w)
	case settling:
		return a.settling(s, w)
	case trying:
		return a.trying(s, w)
	case probing:
		return a.probing(s, w)
	case stuck:
		return a.stuck(s, w)
	}
	return a.steady(s, w)
}

// steady learns and raises the limit, or begins a decrease.
func (a *adaptive) steady(s *shedlimit.Sample, w *view) state {
	if w.completed < fewest {
		if w.completed > 0 && !w.limited && w.waiting <= w.room {
			a.learn(w) // little, as the weight of few is small
		}
		return steady
	}
	switch goal := a.goal(s, w); {
	case goal < w.inFlight:
		return a.try(w, goal)
	case a.waits(s, w) > w.room && w.waitsAlone():
		a.freeze(w)
	case a.waits(s, w) > w.room:
		// Wait until the queue stands. In a window that long, it must not grow meanwhile.
		if !w.limited && a.queue.stood >= standing {
			a.limit = min(a.limit, w.now)
		}
	case w.limited && a.unsure(s.Elapsed) && a.queue.known > 0 && w.inFlight >= 2:
		return a.probe(w)
	default:
		a.learn(w)
		a.grow(s, w)
	}
	return steady
}

// draining waits until requests from before a decrease have ended.
func (a *adaptive) draining(s *shedlimit.Sample, w *view) state {
	if a.drained(s, w) {
		return settling
	}
	return draining
}

// settling waits until those that began behind them have ended. Then the window is one of a.after.
func (a *adaptive) settling(s *shedlimit.Sample, w *view) state {
	if a.settled(s, w) {
		return a.next(a.after, s, w)
	}
	return settling
}

// trying judges a decrease that was made to shorten a queue.
func (a *adaptive) trying(_ *shedlimit.Sample, w *view) state {
	verdict, latency := a.trial.judge(a.now, w)
	if verdict == early {
		return trying
	}
	a.after = steady
	switch {
	case verdict == untried:
	case latency > 1.1:
		// The service has become slower meanwhile. If the trial cost throughput, undo it: the next
		// window begins another one.
		if verdict == starved {
			a.limit = a.trial.limit
		}
	case verdict == starved:
		return a.undo()
	default:
		a.base.sure = a.now
	}
	return steady
}

// probing judges a decrease that was made to learn how many wait.
func (a *adaptive) probing(_ *shedlimit.Sample, w *view) state {
	verdict, latency := a.trial.judge(a.now, w)
	if verdict == early {
		return probing
	}
	a.after = steady
	switch verdict {
	case untried:
		a.limit = a.trial.limit
	case starved:
		return a.undo()
	default:
		pace := a.trial.seen.pace()
		for _, r := range a.trial.seen.routes {
			r.base.lower(r)
		}
		// While latency falls, a queue may be left, unless the baselines hold.
		if a.trial.confirms || latency > 0.9 || pace > 0.85 && pace < 1.1 || a.limit < 4 {
			a.base.sure = a.now
			a.limit = a.trial.limit
		}
	}
	return steady
}

// stuck keeps the limit at the requests that hang and what the others need, until fewer hang.
func (a *adaptive) stuck(s *shedlimit.Sample, w *view) state {
	switch {
	case w.stuck(s):
		// A lower limit helps no request in flight. A higher one lets more hang. A decrease that
		// the beginning of the hang caused is undone.
		a.limit = min(max(a.limit, a.trial.from), float64(w.overdue)+w.busy+w.room)
		a.after = steady
		a.drain = drain{atMost: a.now.Add(longDrain)}
	case a.drained(s, w):
		return settling
	}
	return stuck
}

// lowered reports that requests from before a decrease may be in flight, or that a trial is under
// way.
func (a *adaptive) lowered() bool {
	return a.after != steady || a.state == draining || a.state == stuck
}
