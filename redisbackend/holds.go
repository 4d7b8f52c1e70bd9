package redisbackend

import (
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/list"
)

// A unit of a concurrency limit is held under an id, which ends by itself unless it is
// renewed. This process knows what it holds: from a third of Options.HoldTime on it
// renews that, see holds_renew.go. A release names the ids, so it may be repeated: what
// cannot be released now is released later.

const (
	defaultHoldTime = 30 * time.Second
	minHoldTime     = 3 * time.Second
	maxHoldTime     = time.Hour

	// maxUnreleased is how many units wait to be released while the server does not
	// answer. What is beyond that ends by itself.
	maxUnreleased = 1 << 16
)

// span is units of one key, whose ids are consecutive.
type span struct {
	key   string // in Redis
	first int64
	n     int64
}

// holds is what this process holds, and what it has to release.
type holds struct {
	time    time.Duration // for which a unit is held unless it is renewed
	logger  *slog.Logger
	sender  spanSender
	instant func() int64 // that scripts are given; 0: they use the server's clock
	nonce   [6]byte      // of all ids
	last    atomic.Int64

	mu         sync.Mutex
	of         map[int64]*hold  // by the first id
	due        list.List[*hold] // to be renewed, soonest first
	unreleased []unreleased
	units      int64 // of unreleased
	dropped    int64 // units that were not added to unreleased
	renewals   task
	releases   task
	closed     bool
	lostAt     time.Time // when Redis was last found to have lost units
}

// hold is a span that this process holds.
type hold struct {
	span
	node     list.Node[*hold]
	dueAt    time.Time // when to renew it
	knownAt  time.Time // when Redis was last known to have it
	renewing bool      // a renewal is under way
	doubtful bool      // a renewal without a reply may still arrive
	released bool      // meanwhile
}

// unreleased is a span that is to be released.
type unreleased struct {
	span
	at    time.Time // not before
	until time.Time // when it has ended by itself
	again bool      // a call without a reply may still add it: release it twice
}

func newHolds(b *Backend, lasting time.Duration, logger *slog.Logger) *holds {
	h := &holds{logger: logger, instant: b.instant, of: make(map[int64]*hold)}
	h.sender = spanSender{b.direct, b.lanes, h}
	h.renewals = task{run: h.runRenewals, maxWait: min(maxRetryWait, lasting/30)}
	h.releases = task{run: h.runReleases, maxWait: maxRetryWait}
	_, _ = rand.Read(h.nonce[:]) // never fails
	h.setTime(lasting)
	return h
}

// setTime sets for how long units are held. Their ids say so, see concurrent.lua.
func (h *holds) setTime(lasting time.Duration) {
	h.time = lasting
	h.nonce[0] = byte(math.Ceil(4 * math.Log2(lasting.Seconds())))
}

// issue returns the first of n new ids.
func (h *holds) issue(n int64) int64 { return h.last.Add(n) - n + 1 }

// appendID appends an id as it is in Redis.
func (h *holds) appendID(to []byte, id int64) []byte {
	to = append(to, h.nonce[:]...)
	return append(to, binary.BigEndian.AppendUint64(nil, uint64(id))[2:]...)
}

// add notes units that Redis has just counted as held.
func (h *holds) add(s span) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := &hold{span: s, dueAt: now.Add(h.time / 3), knownAt: now}
	k.node.Of = k
	h.of[s.first] = k
	h.due.Add(&k.node)
	h.wakeLocked(&h.renewals, now, k.dueAt.Add(h.slack()))
}

// forget removes spans that are being released. A renewal that is under way may put them
// back: they are then released again. So may one that had no reply: doubtful[i] says so of
// spans[i]. It is nil if nothing is doubtful.
func (h *holds) forget(spans []span) (doubtful []bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range spans {
		k := h.of[s.first]
		if k == nil {
			continue
		}
		delete(h.of, s.first)
		if k.renewing {
			k.released = true
		} else {
			h.due.Remove(&k.node)
		}
		if k.doubtful {
			if doubtful == nil {
				doubtful = make([]bool, len(spans))
			}
			doubtful[i] = true
		}
	}
	return doubtful
}

// close stops renewals and releases.
func (h *holds) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.renewals.stop()
	h.releases.stop()
}
