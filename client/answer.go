package client

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// answer is what an answer says about limits.
type answer struct {
	status  int
	limited bool // it denies
	unclear bool // its body says whether it denies
	wait    time.Duration
	source  string
	quota   quota.Rest
	counted bool                    // quota is told
	tokens  *[tokenKinds]quota.Rest // of OpenAI and Anthropic; nil: not told
	global  bool                    // it denies all requests of the account
	name    string                  // of the bucket
	invalid bool                    // it counts against the account
}

// read reads an answer. A positive wait was told elsewhere than in the fields h.
func (p *pacer) read(status int, h http.Header, wait time.Duration) (a answer) {
	a.status = status
	_, age := h["Age"]
	_, cached := h["X-From-Cache"]
	fresh := !age && !cached
	a.quota, a.counted = quota.Of(h)
	a.counted = a.counted && fresh
	source, told := quota.RetryAfter, wait > 0
	if !told && status >= 400 {
		wait, source, told = quota.WaitOf(h)
	}
	a.limited = status == http.StatusTooManyRequests ||
		status == http.StatusServiceUnavailable && told || slices.Contains(p.o.Denials, status)
	switch p.o.Dialect {
	case GitHub:
		readGitHub(h, told, &a)
	case Discord:
		readDiscord(h, &a)
	case OpenAI, Anthropic:
		readModel(p.o.Dialect, h, fresh, told, &a)
	}
	switch {
	case a.source != "": // found by the dialect
	case told:
		a.wait, a.source = min(wait, quota.Longest), source
	case a.counted:
		a.wait, a.source = a.quota.Window, a.quota.Source
	}
	return a
}

// learn learns from the answer to c, and returns the bucket that the answer is about. If it denies,
// learn also returns the wait and what asks for it.
func (p *pacer) learn(c *call, a *answer, now instant) (
	about *bucket, wait time.Duration, source string) {
	c.bucket.answer(c.ticket)
	b, tk := p.ofPath(c, a, now)
	strays := 0
	if !b.flight.outdated(tk.seq) {
		b.restart = restart{}
	}
	b.judge(tk, now, a)
	account := b.account
	if account != nil {
		if a.invalid {
			account.common.invalid.start(now)
		}
		if !a.limited && tk.at > account.flight.deniedAt {
			account.backoff.strikes = 0
		}
		b, tk, strays = p.ofName(c, a)
	}
	if !a.limited {
		b.opening.took = now - tk.at
	}
	about = b
	if a.limited && a.global && account != nil {
		b.allow(tk, now)
		if about = account; tk.at > account.flight.deniedAt {
			account.common.sendings.deny()
		}
	}
	c.together = about.flight.deniedAt > 0 && tk.at <= about.flight.deniedAt
	wait, source = about.observe(&p.o, now, tk, a, strays)
	return about, wait, source
}

// ofName returns the bucket that counts c by the name in its answer, and the ticket of c there.
// strays requests are in flight in other buckets; the server may decide them after c.
func (p *pacer) ofName(c *call, a *answer) (b *bucket, tk ticket, strays int) {
	b, tk = c.bucket, c.ticket
	if a.name == "" {
		return b, tk, 0
	}
	if major, ok := strings.CutPrefix(b.key.part, a.name); !ok || major != c.id.major {
		if named := p.named(c, a.name); named != b {
			strays = int(b.flight.flying())
			b.opening.answered = true
			b, tk = named, tk.movedTo(named)
		}
	}
	if p.o.Dialect == Discord {
		strays = b.account.common.strays[c.id.major]
	}
	return b, tk, strays
}

// movedTo returns the ticket of a request that turns out to belong to b, as its latest.
func (tk ticket) movedTo(b *bucket) ticket {
	tk.seq, tk.answered, tk.probes = b.flight.sent, b.flight.answered-1, false
	return tk
}

// named returns the bucket that an answer to c has named. Calls that wait in a bucket that stood in
// for it move there.
func (p *pacer) named(c *call, name string) *bucket {
	if p.table.names[c.id.route] != name {
		p.rename(c.id.route, name)
	}
	named := p.bucket(c, name+c.id.major)
	old := c.bucket
	if old != named && p.o.Dialect == Discord && old.key.part == c.id.provisional {
		if p.table.buckets[old.key] == old {
			p.forget(old)
		}
		old.queue.move("")
	}
	return named
}
