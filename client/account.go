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

// shared is what all buckets of an account have in common, beside the denials of the account.
type shared struct {
	children int            // buckets that have it
	strays   map[string]int // of Discord, by major parameter: under way in buckets that stand in
	writes   writes         // of GitHub
	sendings sendings       // all
	invalid  sendings       // of Discord: answers that count against the account
	line     line
}

// admits returns when an account admits a request, and what it waits for.
func (b *bucket) admits(id *identity, now instant) (at instant, source string) {
	at, source = b.denial()
	if until := b.shared.invalid.next(); until > at {
		at, source = until, sourceInvalid
	}
	if until := b.shared.sendings.next(); until > at && !id.free {
		at, source = until, sourceAccount
	}
	if until := b.shared.writes.next(b.opening.answered, b.flight.denied); until > at && id.writes {
		at, source = until, sourceWrites
	}
	return at, source
}

// start notes that a request is sent.
func (s *shared) start(id *identity, now instant) {
	if id.writes {
		s.writes.start(now)
	}
	if !id.free {
		s.sendings.start(now)
	}
}

// cancel takes back the start of a request at an instant.
func (s *shared) cancel(id *identity, at instant) {
	s.sendings.cancel(at)
	if id.writes {
		s.writes.minute.cancel(at)
		s.writes.hour.cancel(at)
	}
}

// observe notes an answer.
func (s *shared) observe(now instant, a *answer) {
	if a.invalid {
		s.invalid.start(now)
	}
}

// stray counts requests under way whose routes may turn out to share a bucket with others of
// the same major parameter. What they use is not left for those.
func (s *shared) stray(major string, n int) {
	if s.strays == nil {
		s.strays = make(map[string]int)
	}
	if s.strays[major] += n; s.strays[major] == 0 {
		delete(s.strays, major)
	}
}

// sendings keeps requests to a rate. It remembers when as many were sent as may be in a period.
type sendings struct {
	most   int       // in a period; 0: no limit
	at     []instant // a ring once it is full
	pos    int       // of the next
	sent   int       // of the ring
	period time.Duration
	slack  time.Duration // requests may arrive closer together than they are sent
}

func (s *sendings) init(r limits.Rate) {
	s.most, s.period, s.slack = int(r.Units), r.Period, r.Period/50
}

// next returns when the next request may be sent.
func (s *sendings) next() instant {
	if s.sent < s.most || s.most == 0 {
		return 0
	}
	return s.at[s.pos] + s.period + s.slack
}

func (s *sendings) start(now instant) {
	if s.most == 0 {
		return
	}
	if s.pos == len(s.at) {
		s.at = append(s.at, now)
	}
	s.at[s.pos] = now
	s.pos = (s.pos + 1) % s.most
	s.sent = min(s.sent+1, s.most)
}

// cancel takes back the latest start if that was at this instant.
func (s *sendings) cancel(at instant) {
	if s.sent == 0 {
		return
	}
	if last := (s.pos + s.most - 1) % s.most; s.at[last] == at {
		s.pos, s.sent = last, s.sent-1
	}
}

// denied notes that requests arrived too close together.
func (s *sendings) denied() { s.slack = min(2*s.slack, s.period/4) }

// line holds the requests that only Options.Account holds back, each the first of its bucket.
// The one that has waited longest goes first. It alone has to watch the account: a request that
// leaves the line wakes the next.
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
func (s *shared) inFront(w *waiter, joins bool) bool {
	if w.lined && !joins {
		s.line.leave(w)
	}
	if !joins || s.sendings.most == 0 {
		return true
	}
	if !w.lined {
		s.line.join(w)
	}
	return s.line[0] == w
}
