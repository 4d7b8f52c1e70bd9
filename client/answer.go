package client

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// told is what an answer says about limits.
type told struct {
	limited   bool // it denies
	wait      time.Duration
	source    string
	quota     quota
	counted   bool   // quota is there
	everybody bool   // the denial is about all requests of the account
	name      string // of the bucket
	invalid   bool   // counts against the account
}

// read reads an answer.
func (t *Transport) read(ctx context.Context, response *http.Response) (a told) {
	h := response.Header
	if a.quota, a.counted = quotaOf(h); a.counted {
		_, age := h["Age"]
		_, cached := h["X-From-Cache"]
		a.counted = !age && !cached
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		a.limited = true
	case http.StatusServiceUnavailable:
		_, a.limited = retryAfter(h)
	}
	if slices.Contains(t.denials, response.StatusCode) {
		a.limited = true
	}
	switch t.dialect {
	case GitHub:
		readGitHub(ctx, response, &a)
	case Discord:
		readDiscord(response, &a)
	}
	if !a.limited || a.source != "" {
		return a
	}
	if wait, source, ok := retry(h); ok {
		a.wait, a.source = wait, source
	} else if a.counted {
		a.wait, a.source = a.quota.window, a.quota.source
	}
	return a
}

// note notes what the answer to c says. If that denies c, it returns for how long, and what says so.
func (t *Transport) note(c *call, now instant, a *told) (time.Duration, string) {
	b := c.bucket
	b.answer(c.ticket)
	if c.ticket.seq >= b.epoch {
		b.away, b.refusals = 0, 0
	}
	b.judge(c.ticket, now, a)
	account := b.account
	if account != nil {
		if a.invalid {
			account.invalid.add(now)
		}
		if !a.limited && c.ticket.at > account.denied {
			account.strikes = 0
		}
	}
	tk := c.ticket
	strays := 0 // under way elsewhere, and perhaps decided after this one
	if a.name != "" && account != nil {
		if !b.isNamed(a.name, c.id.major) {
			if named := t.named(c, a.name); named != b {
				strays = int(b.sent - b.answered)
				tk.seq, tk.answered, tk.opened = named.sent, named.answered-1, false
				b = named
				c.bucket.known = true
			}
		}
		if t.dialect == Discord {
			strays = account.strays[c.id.major]
		}
	}
	if c.about = b; !a.limited {
		b.took = now - tk.at
	}
	switch {
	case a.limited && a.everybody && account != nil:
		c.about = account
		b.allow(tk, now)
		if c.together = tk.at <= account.denied; !c.together {
			account.sendings.denied()
		}
		return account.deny(tk, now, a.wait, a.source)
	case a.limited:
		c.together = b.denied > 0 && tk.at <= b.denied
		if a.wait <= 0 && t.pace != Off && t.dialect == Standard && !b.counted {
			return b.denySilently(tk, now)
		}
		return b.deny(tk, now, a.wait, a.source)
	case a.counted && t.pace != Off && !b.doubt.ignores(&a.quota, t.maxWait):
		b.believe(tk, now, a.quota, strays)
	default:
		if t.pace != Off && t.dialect == Standard && !b.counted {
			b.listen(now, tk)
		}
		b.allow(tk, now)
	}
	return 0, ""
}

// isNamed reports whether b is the bucket of that name. It spares most answers the look-ups of
// named.
func (b *bucket) isNamed(name, major string) bool {
	route := b.key.route
	return len(route) == len(name)+len(major) && route[:len(name)] == name && route[len(name):] == major
}

// named returns the bucket that an answer to c has named. Those that wait in a bucket that
// stood in for it move there.
func (t *Transport) named(c *call, name string) *bucket {
	k := c.id.key
	if t.table.names[k] != name {
		t.learn(k, name)
	}
	k.route = name + c.id.major
	named := t.bucket(k, c)
	if old := c.bucket; old != named && t.dialect == Discord && old.key.route == c.id.provisional {
		old.moved = named
		if t.table.buckets[old.key] == old {
			t.forget(old)
		}
		old.queue.wakeAll()
	}
	return named
}
