package client

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/limits"
)

const sourceAccount = "account"

// maxAccountUnits bounds Options.Account: sendings remembers an instant for each unit.
const maxAccountUnits = 10_000

// common is what all buckets of an account share, in addition to its denials.
type common struct {
	strays   map[string]int // of Discord, by major parameter: in flight in buckets that stand in
	writes   writes         // of GitHub
	sendings sendings       // of all requests
	invalid  sendings       // of Discord: answers that count against the account
	line     line
}

func newCommon(o *Options) *common {
	c := new(common)
	c.sendings.init(o.Account)
	switch o.Dialect {
	case GitHub:
		c.writes.init()
	case Discord:
		c.invalid.init(limits.Rate{Units: maxInvalid, Period: 10 * time.Minute})
	}
	return c
}

// admitsAt returns when the account admits a request, and what that waits for.
func (b *bucket) admitsAt(id *identity) (at instant, source string) {
	at, source = b.denial()
	if until := b.common.invalid.next(); until > at {
		at, source = until, sourceInvalid
	}
	if until := b.common.sendings.next(); until > at && !id.exempt {
		at, source = until, sourceAccount
	}
	writes := b.common.writes.next(b.opening.answered, b.flight.deniedAt)
	if writes > at && id.writes {
		at, source = writes, sourceWrites
	}
	return at, source
}

// start notes that a request is sent.
func (c *common) start(id *identity, now instant) {
	if id.writes {
		c.writes.start(now)
	}
	if !id.exempt {
		c.sendings.start(now)
	}
}

// cancel takes back the start of a request at an instant.
func (c *common) cancel(id *identity, at instant) {
	c.sendings.cancel(at)
	if id.writes {
		c.writes.minute.cancel(at)
		c.writes.hour.cancel(at)
	}
}

// stray adds n requests in flight. Their routes may share a bucket with other routes of the same
// major parameter, so what they use is not left for those.
func (c *common) stray(major string, n int) {
	if c.strays == nil {
		c.strays = make(map[string]int)
	}
	if c.strays[major] += n; c.strays[major] == 0 {
		delete(c.strays, major)
	}
}

// sendings keeps requests to a rate by remembering the instants of the last ones.
//
//	50 a second: the 51st may start 1.02 s after the first
type sendings struct {
	most   int       // in a period; 0: no limit
	at     []instant // the last starts; a ring once it is full
	pos    int       // of the next in at
	sent   int       // starts in at that count
	period time.Duration
	slack  time.Duration // requests may arrive closer together than they start
}

func (s *sendings) init(r limits.Rate) {
	s.most, s.period, s.slack = int(r.Units), r.Period, r.Period/50
}

// next returns when the next request may start.
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

// deny notes that requests arrived too close together.
func (s *sendings) deny() { s.slack = min(2*s.slack, s.period/4) }

// line holds the calls that only Options.Account holds back, each the first of its bucket. The one
// that has waited longest goes first. Only that one watches the account. A call that leaves the
// line wakes the next.
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

// lineUp makes w join or leave the line, and reports whether no other call goes before it.
func (c *common) lineUp(w *waiter, joins bool) bool {
	if w.lined && !joins {
		c.line.leave(w)
	}
	if !joins || c.sendings.most == 0 {
		return true
	}
	if !w.lined {
		c.line.join(w)
	}
	return c.line[0] == w
}
