package client

import "time"

const sourceLearned = "learned pace"

// learned is the pace of a server that denies and says nothing else. It is found by counting:
// if a bucket of the server is full at two denials, it has leaked in between what was accepted.
// Requests then go at nine tenths of that rate, and carefully faster.
type learned struct {
	every time.Duration // between two requests; 0: not known
	sure  bool          // enough was counted between two denials
	idle  bool          // the program has sent less than it might have: nothing can be counted

	streak int // answers in a row that are no denial, at a slow pace

	seq   uint64  // of the last request that was denied
	at    instant // when that was sent
	since instant // when counting began
	count int64   // accepted since, up to seq

	recent recent
	before int64   // of recent.total: accepted earlier than a second or two before the denial
	from   instant // when that was
	denied instant
}

// slow is the time between two requests from which on a pace is that of one process among many. It
// is denied by chance, so one denial says little, and so few requests are accepted that they cannot
// be counted.
const (
	slow    = time.Second
	slowest = 2 * time.Minute
)

// enough is how many accepted requests make a pace sure.
const enough = 8

// recent counts answers that are no denial, so that it is known how many there were lately: for
// a second, or two, or as long as it took until there were enough.
type recent struct {
	total        int64
	at, earlier  instant
	count, older int64 // of total, at these instants
}

func (r *recent) add(now instant) {
	if now-r.at >= time.Second && r.total-r.count >= enough {
		r.earlier, r.older = r.at, r.count
		r.at, r.count = now, r.total
	}
	r.total++
}

// restart forgets how many there were.
func (r *recent) restart(now instant) { *r = recent{r.total, now, now, r.total, r.total} }

// deny notes a denial that says nothing. It returns the time between two requests at the pace at
// which they go on, or 0 if none is known. A request that was sent before the last denial was known
// says little.
func (l *learned) deny(now instant, tk ticket, before bool) (every time.Duration, known bool) {
	if before && l.seq > 0 {
		if tk.seq > l.seq {
			if l.since == l.at {
				l.since = tk.at
			}
			l.seq, l.at = tk.seq, tk.at
		}
		return 0, true
	}
	accepted := l.seq > 0 && tk.seq > l.seq+1
	if l.every >= slow && (accepted || l.count > 0) {
		l.slowDown(tk)
		l.seq, l.at, l.denied = tk.seq, tk.at, now
		return l.every, false
	}
	l.learn(tk, now)
	l.seq, l.at, l.denied = tk.seq, tk.at, now
	l.before, l.from = l.recent.older, l.recent.earlier
	if l.sure || accepted {
		return l.every, false
	}
	return 0, false
}

// busy reports whether the server has lately accepted so much of this process that others matter little.
func (l *learned) busy(now instant) bool {
	n := l.recent.total - l.recent.older
	return n >= enough && now-l.recent.earlier < time.Duration(n)*slow
}

// next returns when the next request goes at the pace that was learned. The last one went at an
// instant.
func (l *learned) next(last instant) instant {
	if l.every == 0 {
		return 0
	}
	return last + l.every
}

// learn counts what was accepted before a denial.
func (l *learned) learn(tk ticket, now instant) {
	if l.seq > 0 {
		l.count += int64(tk.seq - l.seq - 1)
	}
	over := tk.at - l.since
	switch {
	case l.seq == 0 || l.idle:
		l.every = l.every * 10 / 9
		l.idle = false
	case l.count == 0 && l.busy(now): // the server is down, it seems
		return
	case l.count < enough && !l.sure:
		l.every = max(l.every, over/time.Duration(max(l.count, 1))*10/9)
		return // and count on
	default:
		// Just before the denial the server has taken what it leaks, and what had leaked while
		// nothing was sent. If the bucket was full not long ago, it has taken no more than it leaked.
		lately := max(now-l.recent.earlier, time.Second) / time.Duration(max(l.recent.total-l.recent.older, 1))
		l.every = max(l.every, lately)
		if l.sure && l.count >= enough {
			mean := over / time.Duration(l.count) // it was too slow, and lately too fast
			l.every = max(l.every, (l.every+mean)/2)
		}
		l.every = l.every * 10 / 9
		l.sure = true
	}
	l.since, l.count = tk.at, 0
}

// observe notes an answer that is no denial: requests may be faster. waiting says whether others
// wait, and recent whether the request was sent after the last denial.
func (l *learned) observe(now instant, recent, waiting bool, strikes int) {
	l.recent.add(now)
	switch {
	case l.seq == 0 || !recent:
	case l.every == 0: // the first since the first denial
		n := max(l.recent.total-l.before-1, 1)
		l.every = max(l.denied-l.from, time.Second) / time.Duration(n) * 10 / 9
		if strikes > 1 && !l.busy(now) {
			l.every = max(l.every, now-l.since)
		}
		l.recent.restart(now) // nothing was sent meanwhile
	case !waiting: // the pace holds nothing back
	case l.every >= slow:
		l.speedUp()
	case !l.sure:
		// By a thirtieth for each answer, and by a half in a second.
		l.every -= time.Duration(float64(l.every) * min(1.0/30, l.every.Seconds()/2))
	default:
		// By a fiftieth in a second, and more the longer nothing was denied.
		percent := 2 + float64(now-l.denied)/float64(4*time.Second)
		l.every -= time.Duration(float64(l.every) * min(percent/100*l.every.Seconds(), 0.05))
	}
}

// slowDown notes a denial at a slow pace: the time between two requests grows by a half, or
// threefold if nothing was accepted since the last one, and not faster than they were accepted.
func (l *learned) slowDown(tk ticket) {
	every := l.every * 3 / 2
	if tk.seq == l.seq+1 {
		every = l.every * 3
	}
	l.streak = 0
	l.count += int64(tk.seq - l.seq - 1)
	mean := (tk.at - l.since) / time.Duration(max(l.count, 1))
	l.every = min(max(every, mean), slowest)
}

// speedUp notes an answer at a slow pace that is no denial. Slower processes speed up by more, so
// that all that share a limit come to the same pace, and more with each answer in a row.
func (l *learned) speedUp() {
	l.streak++
	l.every -= time.Duration(float64(l.every) * min(max(0.05, float64(l.streak)*l.every.Minutes()/10), 0.5))
}

// start notes that a request is sent. waiting says whether others wait.
func (l *learned) start(now, lastStart instant, waiting bool) {
	if waiting || now-lastStart <= max(2*l.every, time.Second) {
		return
	}
	l.idle = true
	l.recent.restart(now)
	if l.seq > 0 && now-l.denied > time.Minute {
		*l = learned{recent: l.recent}
	}
}
