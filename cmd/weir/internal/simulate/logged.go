package simulate

import "slices"

// moment is the time within which a request may be denied in place of another of its client, in
// microseconds: servers round time to milliseconds, and log it when a request ends.
const moment = second

// logged compares the decisions of a policy with those of the server that wrote the log, by the
// statuses of its denials.
type logged struct {
	denials []int

	requests           int64 // to which a rule applies
	both               int64 // that both deny
	byServer, byPolicy int64 // that one denies
	swapped            int64 // that one denies, and the other a neighbour
	elsewhere          int64 // with the status of a denial though no rule applies
	unknown            int64 // without a status

	open map[uint32]difference // by client
}

// difference is how many requests of a client one has denied alone, lately.
type difference struct {
	n    int // those of the server; below 0: those of the policy
	last int64
}

// see records a decision at an instant in microseconds.
func (l *logged) see(it *item, at int64, applies, denied bool) {
	byServer := slices.Contains(l.denials, int(it.status))
	if !applies {
		if byServer {
			l.elsewhere++
		}
		return
	}
	l.requests++
	switch {
	case it.status == 0:
		l.unknown++
	case byServer && denied:
		l.both++
	case byServer:
		l.differ(it.client, at, 1)
	case denied:
		l.differ(it.client, at, -1)
	}
}

// differ counts a request that the server has denied alone if by is 1, and the policy if it is −1.
func (l *logged) differ(client uint32, at int64, by int) {
	d := l.open[client]
	if at-d.last > moment {
		d.n = 0
	}
	one, other := &l.byServer, &l.byPolicy
	if by < 0 {
		one, other = other, one
	}
	if d.n*by < 0 {
		*other--
		l.swapped += 2
	} else {
		*one++
	}
	if l.open == nil {
		l.open = make(map[uint32]difference)
	}
	l.open[client] = difference{d.n + by, at}
}

// Logged compares the decisions of a policy with those of the server that wrote the log.
type Logged struct {
	Requests int64 `json:"requests"` // to which a rule applies
	Both     Range `json:"deniedByBoth"`
	Server   Range `json:"deniedByServer"` // and allowed by the policy
	Policy   Range `json:"deniedByPolicy"` // and allowed by the server
	// one denies a request, and the other another one of the client, within a second
	Swapped Range `json:"swapped"`
	// answered with the status of a denial though no rule applies, as by a program behind
	Elsewhere int64 `json:"deniedElsewhere"`
	Unknown   int64 `json:"unknown"` // without a status
}

// loggedOf returns the comparison of the first policy, or nil.
func loggedOf(r *run) (report *Logged) {
	for _, p := range r.replaysOf(0, -1) {
		if p.logged == nil {
			return nil
		}
		first := report == nil
		if first {
			report = &Logged{Requests: p.logged.requests, Elsewhere: p.logged.elsewhere,
				Unknown: p.logged.unknown}
		}
		report.Both.include(first, p.logged.both)
		report.Server.include(first, p.logged.byServer)
		report.Policy.include(first, p.logged.byPolicy)
		report.Swapped.include(first, p.logged.swapped)
	}
	return report
}
