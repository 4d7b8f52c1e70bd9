package client

import (
	"time"

	"github.com/weir-go/weir/limits"
)

const sourceAccount = "account"

// The rules are those of "Rate limits for the REST API" and "Best practices for using the REST API"
// in GitHub's documentation, and of "Rate Limits" in Discord's.
const (
	writesAMinute = 80
	writesAnHour  = 500
	writeSpacing  = 100 * time.Millisecond
	cautious      = time.Second // between writes in the hour after a secondary denial
	sourceWrites  = "GitHub's limit of writes"

	maxInvalid    = 9500 // in ten minutes: at 10,000 Discord blocks the address
	sourceInvalid = "Discord's limit of invalid requests"
)

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

// next returns until when an account holds a request back, and what asks for that. denied says
// that the account has been denied, last at an instant.
func (c *common) next(id *identity, denied bool, last instant) (at instant, source string) {
	if at = c.invalid.next(); at > 0 {
		source = sourceInvalid
	}
	if until := c.sendings.next(); until > at && !id.exempt {
		at, source = until, sourceAccount
	}
	if id.writes {
		if until := c.writes.next(denied, last); until > at {
			at, source = until, sourceWrites
		}
	}
	return at, source
}

// lineUp makes w join or leave the line of the account, and reports whether no other call goes
// before it.
func (c *common) lineUp(w *waiter, joins bool) bool {
	return c.line.admits(w, joins && c.sendings.most > 0)
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

// writes keeps requests that change something to the secondary limit of what creates content.
type writes struct {
	minute, hour sendings
	last         instant
}

func (w *writes) init() {
	w.minute.init(limits.PerMinute(writesAMinute))
	w.hour.init(limits.PerHour(writesAnHour))
}

func (w *writes) start(now instant) {
	w.minute.start(now)
	w.hour.start(now)
	w.last = now
}

// next returns when the next write may start. at is the last denial of the account, if it was
// denied.
func (w *writes) next(denied bool, at instant) instant {
	if w.minute.sent == 0 {
		return 0
	}
	spacing := writeSpacing
	if denied && w.last-at < time.Hour {
		spacing = cautious
	}
	return max(w.last+spacing, w.minute.next(), w.hour.next())
}
