package simulate

import "slices"

// logged compares the decisions of a policy with those of the server that wrote the log, by the
// statuses of its denials.
type logged struct {
	denials []int

	// requests to which a rule applies: how many, those that both deny, and those that one denies
	requests, both, byServer, byPolicy int64
	// requests with such a status to which no rule applies
	elsewhere int64
	// requests without a status
	unknown int64
}

// see records a decision.
func (l *logged) see(status int, applies, denied bool) {
	byServer := slices.Contains(l.denials, status)
	if !applies {
		if byServer {
			l.elsewhere++
		}
		return
	}
	l.requests++
	switch {
	case status == 0:
		l.unknown++
	case byServer && denied:
		l.both++
	case byServer:
		l.byServer++
	case denied:
		l.byPolicy++
	}
}

// Logged compares the decisions of a policy with those of the server that wrote the log.
type Logged struct {
	Requests int64 `json:"requests"` // to which a rule applies
	Both     Range `json:"deniedByBoth"`
	Server   Range `json:"deniedByServer"` // and allowed by the policy
	Policy   Range `json:"deniedByPolicy"` // and allowed by the server
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
	}
	return report
}
