package client

import (
	"net/http"
	"slices"
	"time"
)

// answer is what an answer says about limits.
type answer struct {
	status    int
	limited   bool // it denies
	unclear   bool // its body says whether it denies
	wait      time.Duration
	source    string
	quota     quota
	counted   bool   // quota is there
	everybody bool   // the denial is about all requests of the account
	name      string // of the bucket
	invalid   bool   // counts against the account
}

// read reads an answer. wait is told elsewhere than in the fields h; 0: it is not.
func (p *pacer) read(status int, h http.Header, wait time.Duration) (a answer) {
	a.status = status
	if a.quota, a.counted = quotaOf(h); a.counted {
		_, age := h["Age"]
		_, cached := h["X-From-Cache"]
		a.counted = !age && !cached
	}
	source, said := sourceRetryAfter, wait > 0
	if !said && status >= 400 {
		wait, source, said = retryOf(h)
	}
	a.limited = status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && said ||
		slices.Contains(p.denials, status)
	switch p.dialect {
	case GitHub:
		readGitHub(h, said, &a)
	case Discord:
		readDiscord(h, &a)
	}
	switch {
	case a.source != "": // which the dialect has found
	case said:
		a.wait, a.source = min(wait, longest), source
	case a.counted:
		a.wait, a.source = a.quota.window, a.quota.source
	}
	return a
}

// learn notes what the answer to c says, and returns the bucket that it is about. If it denies c, e
// has for how long, and what says so.
func (p *pacer) learn(c *call, a *answer, now instant, e *Event) (about *bucket) {
	c.bucket.answer(c.ticket)
	b, tk := p.ofPath(c, a, now)
	strays := 0
	if tk.seq >= b.flight.epoch {
		b.restart = restart{}
	}
	b.judge(tk, now, a)
	account := b.account
	if account != nil {
		if account.shared.observe(now, a); !a.limited && tk.at > account.flight.denied {
			account.backoff.strikes = 0
		}
		b, tk, strays = p.counts(c, a)
	}
	if !a.limited {
		b.opening.took = now - tk.at
	}
	about = b
	if a.limited && a.everybody && account != nil {
		b.allow(tk, now)
		if about = account; tk.at > account.flight.denied {
			account.shared.sendings.denied()
		}
	}
	c.together = about.flight.denied > 0 && tk.at <= about.flight.denied
	e.Wait, e.Source = about.observe(p, now, tk, a, strays)
	return about
}

// counts returns the bucket of an account that counts c, by the name in its answer, with the ticket
// of c there. strays are under way elsewhere, and perhaps decided after c.
func (p *pacer) counts(c *call, a *answer) (b *bucket, tk ticket, strays int) {
	b, tk = c.bucket, c.ticket
	if a.name == "" {
		return b, tk, 0
	}
	if !b.isNamed(a.name, c.id.major) {
		if named := p.named(c, a.name); named != b {
			strays = int(b.flight.sent - b.flight.answered)
			b.opening.answered = true
			b = named
			tk.seq, tk.answered, tk.opened = b.flight.sent, b.flight.answered-1, false
		}
	}
	if p.dialect == Discord {
		strays = b.account.shared.strays[c.id.major]
	}
	return b, tk, strays
}

// isNamed reports whether b is the bucket of that name. It spares most answers the look-ups of
// named.
func (b *bucket) isNamed(name, major string) bool {
	route := b.key.route
	return len(route) == len(name)+len(major) && route[:len(name)] == name && route[len(name):] == major
}

// named returns the bucket that an answer to c has named. Those that wait in a bucket that
// stood in for it move there.
func (p *pacer) named(c *call, name string) *bucket {
	k := c.id.key
	if p.table.names[k] != name {
		p.rename(k, name)
	}
	k.route = name + c.id.major
	named := p.bucket(k, c)
	if old := c.bucket; old != named && p.dialect == Discord && old.key.route == c.id.provisional {
		if p.table.buckets[old.key] == old {
			p.forget(old)
		}
		old.queue.move("")
	}
	return named
}
