package client

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/limits"
)

const sourceAccount = "account"

// maxAccountUnits bounds Options.Account: an instant is remembered for each unit.
const maxAccountUnits = 10_000

// sendings keeps all requests of an account to Options.Account. It remembers when as many were
// sent as may be sent in a period.
type sendings struct {
	at     []instant // a ring; nil: no limit
	next   int       // the earliest, once the ring is full
	sent   int       // of the ring
	period time.Duration
	slack  time.Duration // requests may arrive closer together than they are sent
}

func (s *sendings) init(r limits.Rate) {
	if r.Units > 0 {
		s.at, s.period, s.slack = make([]instant, r.Units), r.Period, r.Period/50
	}
}

// ready returns when the next request may be sent.
func (s *sendings) ready() instant {
	if s.sent < len(s.at) || s.at == nil {
		return 0
	}
	return s.at[s.next] + s.period + s.slack
}

func (s *sendings) start(now instant) {
	if s.at == nil {
		return
	}
	s.at[s.next] = now
	s.next = (s.next + 1) % len(s.at)
	s.sent = min(s.sent+1, len(s.at))
}

// cancel takes back the latest start if that was at this instant.
func (s *sendings) cancel(at instant) {
	if s.sent == 0 {
		return
	}
	if last := (s.next + len(s.at) - 1) % len(s.at); s.at[last] == at {
		s.next, s.sent = last, s.sent-1
	}
}

// denied notes that requests arrived too close together.
func (s *sendings) denied() { s.slack = min(2*s.slack, s.period/4) }

// line holds the requests that only Options.Account holds back, each the first of its bucket.
// The one that has waited longest goes first. It alone has to watch the account: whoever leaves
// the line wakes the next.
type line []*waiter

func (l *line) join(w *waiter) {
	i, _ := slices.BinarySearchFunc(*l, w, func(other, w *waiter) int {
		return cmp.Or(cmp.Compare(other.since, w.since), -1) // behind its equals
	})
	*l, w.lined = slices.Insert(*l, i, w), true
}

func (l *line) leave(w *waiter) {
	i := slices.Index(*l, w)
	*l, w.lined = slices.Delete(*l, i, i+1), false
	if i == 0 && len(*l) > 0 {
		(*l)[0].lookAgain()
	}
}

// inFront has w join or leave the line of an account, and reports whether no other request goes
// before it there.
func (b *bucket) inFront(w *waiter, joins bool) bool {
	if w.lined && !joins {
		b.line.leave(w)
	}
	if !joins || b.sendings.at == nil {
		return true
	}
	if !w.lined {
		b.line.join(w)
	}
	return b.line[0] == w
}
