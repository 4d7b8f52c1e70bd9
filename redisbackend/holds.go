package redisbackend

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/list"
	"github.com/weir-go/weir/limits"
)

// A unit of a concurrency limit is held under an id, which ends by itself unless it is
// renewed. This process knows what it holds, and renews it after a third of
// Options.HoldTime. A release names the ids, so it may be repeated: what cannot be released
// now is released later.
//
// One timer fires when the first of all this is due. Each server has a line for renewals and
// a line for releases, and a line has one send under way. So a slow or silent server delays
// no other, and releases delay no renewals: units that are renewed too late are given to
// others. A send has a goroutine, which ends with it.

const (
	defaultHoldTime = 30 * time.Second
	minHoldTime     = 3 * time.Second
	maxHoldTime     = time.Hour

	// maxUnreleased is how many units wait to be released while the server does not
	// answer. What is beyond that ends by itself.
	maxUnreleased = 1 << 16

	// maxRetryWait is the longest wait after a send that failed. For renewals it is at most
	// a thirtieth of HoldTime.
	maxRetryWait = time.Second
)

// span is units of one key, whose ids are consecutive.
type span struct {
	key   string // in Redis
	first int64
	n     int64
}

// holds is what this process holds, and what it has to release.
type holds struct {
	backend *Backend
	time    time.Duration // for which a unit is held unless it is renewed
	logger  *slog.Logger
	nonce   [6]byte // of all ids
	last    atomic.Int64

	mu      sync.Mutex
	of      map[int64]*hold  // of requests that run, by the first id
	due     list.List[*hold] // to be renewed later, soonest first
	again   list.List[*hold] // to be released a second time, soonest first
	lines   map[lineKey]*line
	units   int64 // to be released
	timer   *time.Timer
	wakesAt time.Time // when the timer fires; zero: it does not
	closed  bool
	lostAt  time.Time // when Redis was last found to have lost units
	ran     sync.Cond // runLocked has started what may be sent, or there is no more of it
}

// hold is a span that is held by a request that runs, or that is to be released.
type hold struct {
	span
	node   list.Node[*hold]
	at     time.Time // when to renew it, or to release it again
	listed bool      // it is in the list due
	twice  bool      // it is released twice: a call without a reply may put it back in between
	until  time.Time // when its units have ended by themselves; zero: its request runs
}

// line is the renewals or the releases that wait for one server.
type line struct {
	queue    []*hold
	sending  int // spans of the send under way; 0: there is none
	failures int // sends in a row that failed
	retryAt  time.Time
}

// lineKey identifies a line. The lane is nil if the server is not known.
type lineKey struct {
	lane     *lane
	releases bool
}

func newHolds(b *Backend, lasting time.Duration, logger *slog.Logger) *holds {
	h := &holds{backend: b, logger: logger, of: make(map[int64]*hold), lines: make(map[lineKey]*line)}
	h.ran.L = &h.mu
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

// items returns what scripts are told of spans: the ids of each, and other arguments.
func (h *holds) items(all []*hold, others ...any) []*item {
	items := make([]*item, len(all))
	for i, k := range all {
		ids := make([]byte, 0, k.n*12)
		for j := range k.n {
			ids = h.appendID(ids, k.first+j)
		}
		items[i] = &item{key: k.key, args: append([]any{ids}, others...), most: k.n, weight: 2 + int(k.n)}
	}
	return items
}

// add notes units that Redis has just counted as held.
func (h *holds) add(s span) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := &hold{span: s}
	k.node.Of = k
	h.of[s.first] = k
	h.renewLaterLocked(k, now)
	h.wakeLocked(now, k.at)
}

// slack is how much too early a span may be renewed, so that many are renewed at once.
func (h *holds) slack() time.Duration { return h.time / 60 }

func (h *holds) renewLaterLocked(k *hold, now time.Time) {
	k.at, k.listed = now.Add(h.time/3+h.slack()), true
	h.due.Add(&k.node)
}

// settle releases the units of endings of concurrency limits, and sets their out. What a
// server does not confirm is released later. If too much waits already, the ending has an
// error, and its units end by themselves.
func (h *holds) settle(ctx context.Context, endings []limits.Ending, out []limits.Settlement) {
	var ended []*hold
	var of []int
	for i := range endings {
		e := &endings[i]
		if e.Limit.Algorithm() != limits.AlgorithmConcurrent {
			continue
		}
		if out[i].Returned = e.Taken; e.Taken > 0 {
			ended = append(ended, h.forget(span{h.backend.heldName(e.Scope, e.Key), e.Ticket, e.Taken}))
			of = append(of, i)
		}
	}
	items := h.items(ended)
	h.backend.sendItems(ctx, releaseScript, items)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for i, k := range ended {
		err := items[i].err
		if err == nil && !k.twice {
			continue
		}
		if h.mayReleaseLocked(k, now) {
			h.releasedLocked(k, now, err)
		} else if err != nil {
			out[of[i]] = limits.Settlement{Err: fmt.Errorf("redisbackend: settle: %w", err)}
		}
	}
	h.runLocked(now)
}

// forget returns a span that is to be released, and has it renewed no more. A renewal without
// a reply may arrive after the release, so a span that was renewed is released twice.
func (h *holds) forget(s span) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := &hold{span: s}
	ended.node.Of = ended
	if k := h.of[s.first]; k != nil {
		delete(h.of, s.first)
		if ended.twice = k.twice; k.listed {
			h.due.Remove(&k.node)
		}
	}
	return ended
}

// releaseLater has spans released that nobody waits for. twice says that a taking without a
// reply may arrive after the release.
func (h *holds) releaseLater(spans []span, twice bool) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range spans {
		k := &hold{span: s, twice: twice}
		if k.node.Of = k; s.n > 0 && h.mayReleaseLocked(k, now) {
			h.queueLocked(k)
		}
	}
	h.runLocked(now)
}

// mayReleaseLocked adds k to what is to be released, and reports false if that is too much.
func (h *holds) mayReleaseLocked(k *hold, now time.Time) bool {
	if h.closed || h.units+k.n > maxUnreleased {
		return false
	}
	h.units += k.n
	k.until = now.Add(h.time + 2*callTimeout)
	return true
}

// releasedLocked notes that the release of k has ended with err.
func (h *holds) releasedLocked(k *hold, now time.Time, err error) {
	switch {
	case err != nil:
		h.queueLocked(k)
	case k.twice:
		k.twice, k.at = false, now.Add(callTimeout)
		h.again.Add(&k.node)
	default:
		h.units -= k.n
	}
}

// unwaiting is a context that has ended.
var unwaiting = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// queueLocked adds k to the line of its server.
func (h *holds) queueLocked(k *hold) {
	l, _ := h.backend.lanes.of(unwaiting, k.key)
	key := lineKey{l, !k.until.IsZero()}
	if h.lines[key] == nil {
		h.lines[key] = new(line)
	}
	h.lines[key].queue = append(h.lines[key].queue, k)
}

// wakeLocked has the timer fire at an instant at the latest.
func (h *holds) wakeLocked(now, at time.Time) {
	if h.closed || !h.wakesAt.IsZero() && !at.Before(h.wakesAt) {
		return
	}
	if h.wakesAt = at; h.timer == nil {
		h.timer = time.AfterFunc(at.Sub(now), h.wake)
		return
	}
	h.timer.Reset(at.Sub(now))
}

func (h *holds) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakesAt = time.Time{}
	h.runLocked(time.Now())
}

// runLocked starts a send in each line that may send something, and sets the timer for the rest.
func (h *holds) runLocked(now time.Time) {
	defer h.ran.Broadcast()
	if h.closed {
		return
	}
	if n := h.due.First; n != nil && !n.Of.at.After(now) {
		for ; n != nil && !n.Of.at.After(now.Add(h.slack())); n = h.due.First {
			h.due.Remove(n)
			n.Of.listed = false
			h.queueLocked(n.Of)
		}
	}
	for n := h.again.First; n != nil && !n.Of.at.After(now); n = h.again.First {
		h.again.Remove(n)
		h.queueLocked(n.Of)
	}
	for key, ln := range h.lines {
		if ln.sending > 0 {
			continue
		}
		if len(ln.queue) > 0 && now.Before(ln.retryAt) {
			h.wakeLocked(now, ln.retryAt)
		} else if all := h.takeLocked(ln, now); len(all) > 0 {
			ln.sending = len(all)
			go h.send(key, ln, all)
		} else {
			delete(h.lines, key)
		}
	}
	if n := h.due.First; n != nil {
		h.wakeLocked(now, n.Of.at)
	}
	if n := h.again.First; n != nil {
		h.wakeLocked(now, n.Of.at)
	}
}

// takeLocked empties the queue of a line and returns what is to be sent. Spans of requests
// that have ended are not renewed; units that have ended by themselves are not released.
func (h *holds) takeLocked(ln *line, now time.Time) (all []*hold) {
	for _, k := range ln.queue {
		switch {
		case k.until.IsZero() && h.of[k.first] == k:
			k.twice = true
			all = append(all, k)
		case k.until.After(now):
			all = append(all, k)
		case !k.until.IsZero():
			h.units -= k.n
		}
	}
	ln.queue = nil
	return all
}

// send renews or releases spans.
func (h *holds) send(key lineKey, ln *line, all []*hold) {
	s, items := releaseScript, h.items(all)
	if !key.releases {
		s, items = renewScript, h.items(all, h.time.Microseconds())
	}
	defer h.finish(key, ln, all, items) // a hook of the client may end the goroutine
	h.backend.sendItemsTo(context.Background(), key.lane, s, items)
}

// finish notes what became of a send.
func (h *holds) finish(key lineKey, ln *line, all []*hold, items []*item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	failed, lost := false, false
	for i, k := range all {
		it := items[i]
		failed = failed || it.err != nil
		switch {
		case key.releases:
			h.releasedLocked(k, now, it.err)
		case h.of[k.first] != k: // its request has ended
		case it.err != nil:
			h.queueLocked(k)
		default:
			lost = lost || it.reply > 0
			h.renewLaterLocked(k, now)
		}
	}
	if ln.sending = 0; failed {
		wait := min(maxRetryWait, 50*time.Millisecond<<min(ln.failures, 10))
		if !key.releases {
			wait = min(wait, h.time/30)
		}
		ln.failures++
		ln.retryAt = now.Add(wait)
	} else {
		ln.failures = 0
	}
	if lost {
		h.restoreLocked(now)
	}
	h.runLocked(now)
}

// restoreLocked has everything renewed at once: Redis has lost units, or this process did
// not run for as long as they are held. Until all are renewed, others are found to be lost.
func (h *holds) restoreLocked(now time.Time) {
	if now.Sub(h.lostAt) < h.time/3 {
		return
	}
	h.lostAt = now
	for n := h.due.First; n != nil; n = n.Next {
		n.Of.at = now
	}
	go func(logger *slog.Logger, n int) {
		defer func() { _ = recover() }() // a panic of the logger cannot be logged
		if logger == nil {
			logger = slog.Default()
		}
		logger.Warn("weir: Redis has lost units that are held: put back", "holds", n)
	}(h.logger, len(h.of))
}

// close releases what waits to be released, once. Nothing else is sent any more.
func (h *holds) close() {
	h.mu.Lock()
	if h.closed = true; h.timer != nil {
		h.timer.Stop()
	}
	var all []*hold
	for key, ln := range h.lines {
		if key.releases {
			all = append(all, ln.queue...)
		}
	}
	for n := h.again.First; n != nil; n = n.Next {
		all = append(all, n.Of)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), settleBudget)
	defer cancel()
	h.backend.sendItems(ctx, releaseScript, h.items(all))
}
