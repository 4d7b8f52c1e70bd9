package client

import "time"

const sourceLearned = "learned pace"

// learned is the pace of a server that denies and tells nothing else. Suppose that the server has a
// leaky bucket, which is full at each denial. Between two denials the bucket then leaks as many
// requests as the server accepts. Requests go at nine tenths of that rate, and carefully faster:
//
//	denied at 0 s and at 10 s, 200 accepted in between: 20 a second leak
//	every is 1/20 s · 10/9 = 56 ms, and shrinks by a fiftieth in a second
//
// count is inferred from seq: if requests 10 and 15 are denied, the 4 between them were accepted,
// and the denial of 15 adds 4. If one of the 4 was not sent, bucket.cancel subtracts 1, perhaps
// before that denial: then count goes from 0 to -1, and the denial makes it 3.
type learned struct {
	every time.Duration // between two requests; 0: unknown
	sure  bool          // enough requests were accepted between two denials
	idle  bool          // the program paused while count grew, so count says nothing

	streak int // answers in a row without a denial, at a slow pace

	seq   uint64  // of the denied request that was sent last
	at    instant // when that was sent
	since instant // when counting began: a denied request was sent then
	count int64   // accepted requests that were sent from since to at; see above

	recent    recent
	from      instant // recent.start at the last denial
	fromTotal int64   // recent.total at from
	deniedAt  instant // when the last denial arrived
}

// slow is the shortest time between two requests at which a process is taken for one of many that
// share the limit. Such a process is denied by chance, so one denial says little. Too few of its
// requests are accepted to count them.
const (
	slow    = time.Second
	slowest = 2 * time.Minute
)

// enough is how many accepted requests make a pace sure.
const enough = 8

// recent counts accepted requests of late in two spans: from start to middle, and from middle to
// now. Once the later span has lasted a second and has enough requests, it becomes the earlier one.
// So start is a second or two ago, or longer if few were accepted. After restart both are now.
type recent struct {
	total         int64   // all that were accepted
	start, middle instant // equal after restart

	startTotal, middleTotal int64 // total at these two instants
}

func (r *recent) add(now instant) {
	if now-r.middle >= time.Second && r.total-r.middleTotal >= enough {
		r.start, r.startTotal = r.middle, r.middleTotal
		r.middle, r.middleTotal = now, r.total
	}
	r.total++
}

// restart begins to count anew.
func (r *recent) restart(now instant) {
	*r = recent{total: r.total, start: now, middle: now, startTotal: r.total, middleTotal: r.total}
}

// deny learns from a denial. It returns the time between two requests at which they go on, or 0 if
// they must wait as backoff says: too few were accepted to tell a pace.
//
// If l knows a denial, that of an outdated request is old and does not change the pace. For example
// 10 was denied, and now 13 is, an old denial. The next denial adds what was accepted after 13: 11
// and 12 do not count.
func (l *learned) deny(now instant, tk ticket) (every time.Duration, old bool) {
	if tk.outdated && l.seq > 0 {
		if tk.seq > l.seq {
			if l.since == l.at { // nothing is counted yet: begin at the later one
				l.since = tk.at
			}
			l.seq, l.at = tk.seq, tk.at
		}
		return 0, true
	}
	l.streak, l.deniedAt = 0, now
	l.from, l.fromTotal = l.recent.start, l.recent.startTotal
	// Requests between two denied ones count as accepted. slowDown uses the mean time between
	// accepted requests since l.since. If there are none, learn takes its place.
	accepted := l.seq > 0 && tk.seq > l.seq+1
	if l.every >= slow && (accepted || l.count > 0) {
		l.slowDown(tk)
		l.seq, l.at = tk.seq, tk.at
		return l.every, false
	}
	l.learn(tk, now)
	l.seq, l.at = tk.seq, tk.at
	if l.sure || accepted {
		return l.every, false
	}
	return 0, false
}

// busy reports whether the server has lately accepted more than a request a second of this process.
// Then other processes matter little.
func (l *learned) busy(now instant) bool {
	n := l.recent.total - l.recent.startTotal
	return n >= enough && now-l.recent.start < time.Duration(n)*slow
}

// next returns when the next request starts at the learned pace.
func (l *learned) next(last instant) instant {
	if l.every == 0 {
		return 0
	}
	return last + l.every
}

// learn counts the requests that were accepted before a denial, and learns a pace from them.
func (l *learned) learn(tk ticket, now instant) {
	if l.seq > 0 {
		l.count += int64(tk.seq - l.seq - 1)
	}
	over := tk.at - l.since // in which l.count were accepted
	switch {
	case l.seq == 0 || l.idle: // count says nothing
		l.idle = false
	case l.count == 0 && l.busy(now): // all at once it accepts none: it seems to be down
		return
	case l.count < enough && !l.sure:
		l.learnFew(over)
		return // and count on
	default:
		l.learnLeak(over, now)
	}
	l.every = l.every * 10 / 9 // 0 stays unknown
	l.since, l.count = tk.at, 0
}

// learnFew learns from so few accepted requests that they make no pace sure: go no faster than they
// were accepted.
func (l *learned) learnFew(over time.Duration) {
	l.every = max(l.every, min(over/time.Duration(max(l.count, 1))*10/9, slowest))
}

// learnLeak learns how fast the server's bucket leaks. It accepts as many requests as leak, and
// more while it has room. So it leaks no faster than it has accepted requests of late.
func (l *learned) learnLeak(over time.Duration, now instant) {
	n := max(l.recent.total-l.recent.startTotal, 1)
	l.every = max(l.every, max(now-l.recent.start, time.Second)/time.Duration(n))
	if l.sure && l.count >= enough {
		// The bucket was full at since, too. So the mean time between accepted requests is that of
		// the leak, or longer if the bucket ran empty at a slow pace. If it is longer than l.every,
		// l.every goes half of the way to it. Before the pace is sure the mean says less: over may
		// include waits of backoff, when nothing was sent.
		mean := over / time.Duration(l.count)
		l.every = max(l.every, (l.every+mean)/2)
	}
	l.sure = true
}

// observe learns from an answer that is no denial: requests may be faster. newer says that the
// request was sent after the last denial arrived. waiting says that it had to wait or that others
// wait. strikes is how many denials in a row came before the answer.
func (l *learned) observe(now instant, newer, waiting bool, strikes int) {
	l.recent.add(now)
	switch {
	case l.seq == 0 || !newer:
	case l.every == 0: // no pace yet: begin with nine tenths of the rate before the last denial
		n := max(l.recent.total-l.fromTotal-1, 1) // without this answer
		l.every = max(l.deniedAt-l.from, time.Second) / time.Duration(n) * 10 / 9
		// Denied again after a wait: others use the limit, too (see silences in waits.go). Go no
		// faster than one request in the time since counting began. This is rare: mostly learn sets
		// a pace at the second denial. It sets none if the program has paused, for example.
		if strikes > 1 && !l.busy(now) {
			l.every = max(l.every, min(now-l.since, slowest))
		}
		l.recent.restart(now) // nothing was sent while backoff waited
	case !waiting: // the pace holds nothing back
	case l.every >= slow:
		l.speedUp()
	case !l.sure:
		// By a thirtieth for each answer, but by no more than a half in a second. An answer comes
		// each l.every, so at 10 ms each is limited to 0.5%.
		l.every -= time.Duration(float64(l.every) * min(1.0/30, l.every.Seconds()/2))
	default:
		// By 2% in a second, and by 1% more for each 4 s without a denial: 12% after 40 s. So at
		// 100 ms by 0.2% for each answer at first, and by 5% for each at most.
		percent := 2 + float64(now-l.deniedAt)/float64(4*time.Second)
		l.every -= time.Duration(float64(l.every) * min(percent/100*l.every.Seconds(), 0.05))
	}
}

// slowDown learns from a denial at a slow pace. The time between two requests grows by a half, or
// threefold if nothing was accepted since the last denial. It is at least the mean time between
// accepted requests. A pause of the program makes that mean longer: slowDown does not look at idle.
// But start forgets the pace after a pause that ends more than a minute after the last denial.
func (l *learned) slowDown(tk ticket) {
	every := l.every * 3 / 2
	if tk.seq == l.seq+1 {
		every = l.every * 3
	}
	l.count += int64(tk.seq - l.seq - 1)
	mean := (tk.at - l.since) / time.Duration(max(l.count, 1))
	l.every = min(max(every, mean), slowest)
}

// speedUp learns from an answer at a slow pace that is no denial. Slower processes speed up by
// more, so that all that share a limit reach the same pace. Later answers count more, up to 50%.
//
//	a request each 60 s: by 20% after the first answer, 32% after the second
//	a request each 10 s: by 5% after the first answer, 6% after the second
func (l *learned) speedUp() {
	l.streak++
	part := min(max(0.05, float64(l.streak)*l.every.Minutes()/5), 0.5)
	l.every -= time.Duration(float64(l.every) * part)
}

// start notes that a request is sent. waiting says that it had to wait or that others wait. If the
// program has paused, count says nothing, and a denial of more than a minute ago is forgotten with
// its pace.
func (l *learned) start(now, lastStart instant, waiting bool) {
	if waiting || now-lastStart <= max(2*l.every, time.Second) {
		return
	}
	l.idle = true
	l.recent.restart(now)
	if l.seq > 0 && now-l.deniedAt > time.Minute {
		*l = learned{recent: l.recent}
	}
}
