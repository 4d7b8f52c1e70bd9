package redisbackend

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/limits"
)

// WithClock makes b decide by now instead of the server's clock, by 2255 at the
// latest, which is 2^53 microseconds.
func WithClock(b *Backend, now func() time.Time) *Backend {
	latest := time.UnixMicro(1<<53 - 1)
	b.now = func() time.Time {
		if t := now(); t.Before(latest) {
			return t
		}
		return latest
	}
	WaitForEver(b)
	return b
}

// HoldForEver has b hold units until they are released: a clock set by hand moves on
// without renewals.
func HoldForEver(b *Backend) *Backend {
	b.holds.setTime(250 * 366 * 24 * time.Hour)
	return b
}

// WaitForGiveBacks waits until no give-back of b is left.
func WaitForGiveBacks(b *Backend) { <-b.giveBacks.idle() }

// SlotOf is the hash slot of a name.
var SlotOf = slot.Of

// Name is the name of a state in Redis.
func Name(b *Backend, scope, key string) string { return b.name(scope, key) }

// Judge is what Check makes of a server's INFO.
var Judge = judge

// Explain is what Check says of a server's error.
var Explain = explain

// TakeTentatively takes c as one group of a request that is spread over several servers. It
// returns a function that gives it back and reports whether there was anything to give.
func TakeTentatively(ctx context.Context, b *Backend, c limits.Charge) (d limits.Decision, giveBack func() (bool, error), err error) {
	var r request
	if err := b.accountsOf([]limits.Charge{c}, &r, modeTentative); err != nil {
		return d, nil, err
	}
	accounts := r.accounts
	l, err := b.lanes.of(ctx, accounts[0].name)
	if err != nil {
		return d, nil, err
	}
	a := new(ask)
	a.prepare(ctx, b, accounts, modeTentative, b.instant())
	if _, err := l.decide(ctx, a, accounts); err != nil {
		return d, nil, err
	}
	all := read(a.now, a.numbers, accounts, modeTentative, nil)
	return all[0].enforced, func() (bool, error) {
		p, ok := giveBackFor(b.client.(processor), &accounts[0], &all[0], b.instant())
		if !ok {
			return false, nil
		}
		n, err := returned(p.send(ctx))
		return n > 0, err
	}, nil
}

// Spread is how many scopes b knows to be charged together with others.
func Spread(b *Backend) int {
	if scopes := b.spread.scopes.Load(); scopes != nil {
		return len(*scopes)
	}
	return 0
}

// Waiting is how many requests wait in b's only lane.
func Waiting(b *Backend) (n int) {
	l := b.lanes.only
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queues {
		for k := l.queues[i].First; k != nil; k = k.Next {
			n += k.Of.asks.Size
		}
	}
	return n
}

// WaitForEver has b never take a server for silent, nor end a call: the machine may be slow.
func WaitForEver(b *Backend) {
	b.lanes.patience = 1000 * time.Hour
	if b.lanes.only != nil {
		b.lanes.only.patience = b.lanes.patience
	}
}

// Client is the client that b works with.
func Client(b *Backend) redis.Scripter { return b.client }

// Unrepeated is the client by which a Cluster is asked.
func Unrepeated(client redis.Scripter) redis.Scripter { return unrepeatedClient{client.(cluster)} }

// UnrepeatedPipeline is a pipeline by which a Cluster is asked.
func UnrepeatedPipeline(client *redis.ClusterClient) pipeline {
	return pipelineTo(unrepeatedClient{client})
}

// RenewAll renews all that b holds, at once, and all again if Redis has lost some. What
// ended meanwhile is released soon, as after a renewal that was due.
func RenewAll(b *Backend) {
	h := b.holds
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if now := time.Now(); len(h.unreleased) > 0 {
			h.wakeLocked(&h.releases, now, now)
		}
	}()
	for range 2 {
		h.mu.Lock()
		var all []*hold
		for k := h.due.First; k != nil; k = h.due.First {
			h.due.Remove(k)
			k.Of.renewing = true
			all = append(all, k.Of)
		}
		before := h.lostAt
		h.mu.Unlock()
		h.renewAll(all, time.Now())
		h.mu.Lock()
		again := h.lostAt != before
		h.mu.Unlock()
		if !again {
			return
		}
	}
}

// HeldName is the name in Redis of what is held.
func HeldName(b *Backend, scope, key string) string { return b.heldName(scope, key) }

// Forget has b neither renew nor release what it holds.
func Forget(b *Backend, c limits.Charge, d limits.Decision) {
	b.holds.forget([]span{{b.heldName(c.Scope, c.Key), d.Ticket, c.Cost}})
}

// Holding is how many charges b holds units for, and how many units it has yet to release.
func Holding(b *Backend) (charges int, unreleased int64) {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.of), h.units
}

// WaitForReleases polls until b has no units left to release, for a minute at most. Their
// sender has no signal.
func WaitForReleases(b *Backend) {
	for deadline := time.Now().Add(time.Minute); !ReleasesAreDone(b); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			panic("redisbackend: units are still to be released after a minute")
		}
	}
}

// ReleasesAreDone reports whether b has no units left to release.
func ReleasesAreDone(b *Backend) bool {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.renewals.running && !h.releases.running && h.units == 0
}

// RenewDigest is the digest of the script that renews.
var RenewDigest = renewScript.digest

// ReleaseDigest is the digest of the script that releases.
var ReleaseDigest = releaseScript.digest

// Renewing is how many charges of b are being renewed.
func Renewing(b *Backend) (n int) {
	h := b.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.of {
		if k.renewing {
			n++
		}
	}
	return n
}

// returned is how many units a give-back returned.
func returned(reply *redis.Cmd) (int64, error) {
	all, err := reply.Slice()
	if err != nil {
		return 0, err
	}
	if err, ok := all[0].(error); ok {
		return 0, err
	}
	return number(all[0]), nil
}

// ClockOffset is what a process knows of a server's clock.
type ClockOffset = clockOffset

// NewClockOffset returns that a server's clock showed server, in microseconds, at an
// instant between asked and answered.
func NewClockOffset(asked, answered time.Time, server int64) ClockOffset {
	return clockOffset{asked, answered, server}
}

// EncodeAnnouncements returns the message of a process.
func EncodeAnnouncements(all []limits.Announcement, offset ClockOffset, now time.Time) []byte {
	message, err := encodeAnnouncements([instanceSize]byte{}, all, offset, now)
	if err != nil {
		panic(err)
	}
	return message
}

// DecodeAnnouncements reads a message that has arrived at an instant.
func DecodeAnnouncements(message string, offset ClockOffset, arrived time.Time) ([]limits.Announcement, error) {
	_, all, err := decodeAnnouncements(message, offset, arrived)
	return all, err
}
