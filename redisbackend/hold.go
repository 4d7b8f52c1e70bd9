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

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/list"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// A unit of a concurrency limit is held under an id, which ends by itself unless it is
// renewed. This process knows what it holds, and renews it after a third of
// Options.HoldTime. A release names the ids, so it may be repeated: what cannot be released
// now is released later. A renewal is sent again before the first one has failed: a call may take a
// second, and HoldTime may be three. One timer fires when the first of all this is due.

const (
	defaultHoldTime = 30 * time.Second
	minHoldTime     = 3 * time.Second
	maxHoldTime     = time.Hour

	// maxUnreleased is how many units wait to be released while the server does not
	// answer. What is beyond that ends by itself.
	maxUnreleased = 1 << 16

	// maxRetryWait is the longest wait after a renewal or release that failed: a thirtieth of HoldTime,
	// or this.
	maxRetryWait = time.Second
)

// span is units of one key, whose ids are consecutive.
type idRange struct {
	key   string // in Redis
	first int64
	count int64
}

// holds is what this process holds, and what it has to release.
type holds struct {
	backend  *Bare
	holdTime time.Duration // for which a unit is held unless it is renewed
	logger   *slog.Logger
	nonce    [6]byte // of all ids
	last     atomic.Int64

	mu             sync.Mutex
	running        map[int64]*hold  // of requests that run, by the first id
	due            list.List[*hold] // to be renewed, soonest first
	unconfirmed    list.List[*hold] // to be renewed again unless the server answers before, soonest first
	retries        list.List[*hold] // to be renewed or released after a failure, soonest first
	secondReleases list.List[*hold] // to be released a second time, soonest first
	inFlight       map[*hold]int    // how many renewals or releases are under way
	units          int64            // to be released
	timer          *time.Timer
	wakesAt        time.Time // when the timer fires; zero: it does not
	closed         bool
	lostAt         time.Time // when Redis was last found to have lost units
	answered       sync.Cond // a renewal or release has been
}

// hold is a span that is held by a request that runs, or that is to be released.
type hold struct {
	idRange
	node         list.Node[*hold]
	list         *list.List[*hold] // that it is in; nil: none
	dueAt        time.Time         // when it is due there
	latestErrand *errand           // its latest renewal or release
	mayReappear  bool              // a call without a reply may put it back after its release: it is released again
	endsBy       time.Time         // when its units have ended by themselves; zero: its request runs
}

func newHolds(b *Bare, lasting time.Duration, logger *slog.Logger) *holds {
	h := &holds{backend: b, logger: logger, running: make(map[int64]*hold), inFlight: make(map[*hold]int)}
	h.answered.L = &h.mu
	_, _ = rand.Read(h.nonce[:]) // never fails
	h.setTime(lasting)
	return h
}

// setTime sets for how long units are held. Their ids say so, see concurrent.lua.
func (h *holds) setTime(lasting time.Duration) {
	h.holdTime = lasting
	h.nonce[0] = byte(math.Ceil(4 * math.Log2(lasting.Seconds())))
}

// issue returns the first of n new ids.
func (h *holds) issue(n int64) int64 { return h.last.Add(n) - n + 1 }

// appendID appends an id as it is in Redis.
func (h *holds) appendID(to []byte, id int64) []byte {
	to = append(to, h.nonce[:]...)
	return append(to, binary.BigEndian.AppendUint64(nil, uint64(id))[2:]...)
}

// newHold returns a hold that is in no list.
func newHold(ids idRange, mayReappear bool) *hold {
	k := &hold{idRange: ids, mayReappear: mayReappear}
	k.node.Of = k
	return k
}

// errand returns the job that renews or releases k.
func (h *holds) errandFor(ctx context.Context, k *hold) *errand {
	ids := make([]byte, 0, k.count*12)
	for j := range k.count {
		ids = h.appendID(ids, k.first+j)
	}
	weight := 1 + int(k.count/unitsWeight)
	if k.isRenewed() {
		e := h.backend.newErrand(ctx, &renewScript, k.key, weight, k.count, ids, h.holdTime.Microseconds())
		e.priority = renewing
		return e
	}
	return h.backend.newErrand(ctx, &releaseScript, k.key, weight, k.count, ids)
}

// isRenewed reports whether the request of k runs.
func (k *hold) isRenewed() bool { return k.endsBy.IsZero() }

// add notes units that Redis has just counted as held.
func (h *holds) add(ids idRange) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := newHold(ids, false)
	h.running[ids.first] = k
	h.waitLocked(k, &h.due, now.Add(h.holdTime/3+h.slack()), now)
}

// slack is how much too early a span may be renewed, so that many are renewed at once.
func (h *holds) slack() time.Duration { return h.holdTime / 60 }

// waitLocked puts k, which is in no list, into one, at the end of which its instant is.
func (h *holds) waitLocked(k *hold, queue *list.List[*hold], dueAt, now time.Time) {
	k.list, k.dueAt = queue, dueAt
	queue.Add(&k.node)
	h.wakeLocked(now, dueAt)
}

// retryLocked puts off a renewal or release of k that has failed: by a second, or a thirtieth of HoldTime.
func (h *holds) retryLocked(k *hold, now time.Time) {
	h.waitLocked(k, &h.retries, now.Add(min(maxRetryWait, h.holdTime/30)), now)
}

func (k *hold) leaveList() {
	if k.list != nil {
		k.list.Remove(&k.node)
		k.list = nil
	}
}

// endedHold is the hold of an ending, and where to say what became of it.
type heldEnding struct {
	hold *hold
	out  *limits.Settlement
}

// endedBy returns the holds of endings of concurrency limits, which are to be released.
func (h *holds) releasesOf(endings []backends.Ending, out []limits.Settlement) (ended []heldEnding) {
	for i := range endings {
		e := &endings[i]
		if !algorithm.Of(e.Limit.Algorithm()).Held {
			continue
		}
		if out[i].Returned = e.Taken; e.Taken > 0 {
			ended = append(ended, heldEnding{h.forget(idRange{h.backend.heldName(e.Scope, e.Key), e.Ticket, e.Taken}), &out[i]})
		}
	}
	return ended
}

// ended notes what became of the releases of endings. What a server has not confirmed is released
// later. If too much waits already, the ending has an error, and its units end by themselves.
func (h *holds) recordReleases(ended []heldEnding, errs []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for i, e := range ended {
		err := errs[i]
		if err == nil && !e.hold.mayReappear {
			continue
		}
		if h.mayReleaseLocked(e.hold, now) {
			h.releasedLocked(e.hold, now, err)
		} else if err != nil {
			*e.out = limits.Settlement{Err: fmt.Errorf("redisbackend: settle: %w", err)}
		}
	}
}

// forget stops renewing a span and returns it for release. A renewal without a reply may arrive after the
// release, so a span that was renewed is released a second time.
func (h *holds) forget(ids idRange) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := newHold(ids, false)
	ended.endsBy = time.Now().Add(h.holdTime + 2*callTimeout)
	if k := h.running[ids.first]; k != nil {
		delete(h.running, ids.first)
		k.leaveList()
		h.withdrawLocked(k)
		ended.mayReappear = k.mayReappear
	}
	return ended
}

// releaseLater releases spans without a caller that waits. mayRise says that a taking without a reply may
// arrive after the release.
func (h *holds) releaseLater(ranges []idRange, mayReappear bool) {
	if len(ranges) == 0 {
		return
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range ranges {
		k := newHold(s, mayReappear)
		k.endsBy = now.Add(h.holdTime + 2*callTimeout)
		if s.count > 0 && h.mayReleaseLocked(k, now) {
			h.sendLocked(now, k)
		}
	}
}

// mayReleaseLocked adds k to what is to be released, and reports false if that is too much.
func (h *holds) mayReleaseLocked(k *hold, now time.Time) bool {
	if h.closed || h.units+k.count > maxUnreleased {
		return false
	}
	h.units += k.count
	return true
}

// releasedLocked notes that the release of k has ended with err.
func (h *holds) releasedLocked(k *hold, now time.Time, err error) {
	switch {
	case err != nil && now.Before(k.endsBy):
		h.retryLocked(k, now)
	case err == nil && k.mayReappear:
		k.mayReappear = false
		h.waitLocked(k, &h.secondReleases, now.Add(longestCall), now)
	default:
		h.units -= k.count
	}
}

// unwaiting is a context that has ended.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// sendLocked renews or releases holds. Those on one server are sent together.
func (h *holds) sendLocked(now time.Time, due ...*hold) {
	jobs, holdsOf := make(map[*line][]*job), make(map[*line][]*hold)
	for _, k := range due {
		h.withdrawLocked(k) // it has waited in vain
		e := h.errandFor(context.Background(), k)
		e.done = func() { h.finish(k, e) }
		if k.latestErrand = e; k.isRenewed() {
			k.mayReappear = true
			h.waitLocked(k, &h.unconfirmed, now.Add(h.holdTime/10), now)
		}
		h.inFlight[k]++
		l, err := h.backend.lines.lineOf(endedContext, k.key)
		if err != nil {
			h.finishLocked(k, now, 0, err)
			continue
		}
		e.line = l
		jobs[l], holdsOf[l] = append(jobs[l], &e.job), append(holdsOf[l], k)
	}
	for l, jobs := range jobs {
		if err := l.submit(now, jobs...); err != nil {
			for _, k := range holdsOf[l] {
				h.finishLocked(k, now, 0, err)
			}
		}
	}
}

// withdrawLocked withdraws the latest renewal of k if it has not been sent. So of each hold one waits at most.
func (h *holds) withdrawLocked(k *hold) {
	if e := k.latestErrand; e != nil && e.line != nil && e.line.withdraw(&e.job) {
		h.sentLocked(k)
	}
}

// sentLocked notes that a renewal or release of k is no longer under way.
func (h *holds) sentLocked(k *hold) {
	if h.inFlight[k]--; h.inFlight[k] == 0 {
		delete(h.inFlight, k)
	}
	h.answered.Broadcast()
}

// finish notes what became of the renewal or release of k.
func (h *holds) finish(k *hold, e *errand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	unknown := int64(0)
	if e.err == nil {
		unknown = e.numbers[0]
	}
	h.finishLocked(k, time.Now(), unknown, e.err)
}

func (h *holds) finishLocked(k *hold, now time.Time, unknown int64, err error) {
	h.sentLocked(k)
	switch {
	case !k.isRenewed():
		h.releasedLocked(k, now, err)
	case h.running[k.first] != k: // its request has ended
	case err != nil:
		if k.list == &h.unconfirmed && h.inFlight[k] == 0 {
			k.leaveList()
			h.retryLocked(k, now)
		}
	default:
		k.leaveList()
		h.waitLocked(k, &h.due, now.Add(h.holdTime/3+h.slack()), now)
		if unknown > 0 {
			h.restoreLocked(now)
		}
	}
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

// runLocked sends what is due, and sets the timer for the rest.
func (h *holds) runLocked(now time.Time) {
	if h.closed {
		return
	}
	if n := h.due.First; n != nil && !n.Of.dueAt.After(now) {
		h.sendDueLocked(&h.due, now.Add(h.slack()), now)
	}
	h.sendDueLocked(&h.unconfirmed, now, now)
	h.sendDueLocked(&h.retries, now, now)
	h.sendDueLocked(&h.secondReleases, now, now)
	for _, queue := range [...]*list.List[*hold]{&h.due, &h.unconfirmed, &h.retries, &h.secondReleases} {
		if queue.First != nil {
			h.wakeLocked(now, queue.First.Of.dueAt)
		}
	}
}

// sendDueLocked sends what is due in a list by an instant.
func (h *holds) sendDueLocked(queue *list.List[*hold], by, now time.Time) {
	var due []*hold
	for n := queue.First; n != nil && !n.Of.dueAt.After(by); n = queue.First {
		n.Of.leaveList()
		due = append(due, n.Of)
	}
	if len(due) > 0 {
		h.sendLocked(now, due...)
	}
}

// restoreLocked renews everything at once: Redis has lost units, or this process did
// not run for as long as they are held. Until all are renewed, others are found to be lost.
func (h *holds) restoreLocked(now time.Time) {
	if now.Sub(h.lostAt) < h.holdTime/3 {
		return
	}
	h.lostAt = now
	for n := h.due.First; n != nil; n = n.Next {
		n.Of.dueAt = now
	}
	h.wakeLocked(now, now)
	go func(logger *slog.Logger, n int) {
		defer func() { _ = recover() }() // a panic of the logger cannot be logged
		if logger == nil {
			logger = slog.Default()
		}
		logger.Warn("weir: Redis has lost units that are held: put back", "holds", n)
	}(h.logger, len(h.running))
}

// close releases what waits to be released, once. Nothing else is sent any more.
func (h *holds) close() {
	ctx, cancel := context.WithTimeout(context.Background(), settleBudget)
	defer cancel()
	h.mu.Lock()
	if h.closed = true; h.timer != nil {
		h.timer.Stop()
	}
	var errands []*errand
	for _, queue := range [...]*list.List[*hold]{&h.retries, &h.secondReleases} {
		for n := queue.First; n != nil; n = n.Next {
			if k := n.Of; !k.isRenewed() {
				errands = append(errands, h.errandFor(ctx, k))
			}
		}
	}
	h.mu.Unlock()
	h.backend.sendAll(ctx, errands)
	h.waitForReleases(ctx)
}

// waitForReleases waits until no renewal or release is under way, or ctx ends.
func (h *holds) waitForReleases(ctx context.Context) {
	waitUntil(ctx, &h.answered, func() bool { return len(h.inFlight) == 0 })
}

// waitUntil waits until done, which it calls with the lock of changed, or ctx ends.
func waitUntil(ctx context.Context, changed *sync.Cond, done func() bool) {
	stop := context.AfterFunc(ctx, func() {
		changed.L.Lock()
		defer changed.L.Unlock()
		changed.Broadcast()
	})
	defer stop()
	changed.L.Lock()
	defer changed.L.Unlock()
	for !done() && ctx.Err() == nil {
		changed.Wait()
	}
}

// A taking by a concurrency limit is under ids that the client chose. If its caller does not learn what
// became of it, its units are released: whether its reply was lost, its caller has left,
// or another server denied the request. No call for it is repeated, since a repetition
// would find the units of the first attempt held, and might deny for them.

// heldAccount returns the account of a concurrency limit.
func (b *Bare) heldAccount(charged backends.Account, limit *encoded, mode mode) account {
	a := account{Account: charged, name: b.heldName(charged.Scope, charged.Key), limit: limit}
	if !mode.peeks {
		a.ticket = b.holds.issue(a.held())
	}
	return a
}

// releaseIfTaken releases the units of a request that failed, if its call may have taken them.
func (t *takeJob) releaseIfTaken() {
	if len(t.ids) > 0 && t.backend.lines.mayHaveRun(t.err) {
		t.backend.holds.releaseLater(t.ids, true)
	}
}

// reissue gives a new ids: it is asked again, and the old ones are being released.
func (t *takeJob) reissue() {
	former := t.ids
	if len(former) == 0 {
		return
	}
	defer t.setArguments()
	t.ids = make([]idRange, 0, len(former))
	for i := range t.accounts {
		account := &t.accounts[i]
		if account.limit.Held {
			account.ticket = t.backend.holds.issue(account.held())
			t.ids = append(t.ids, idRange{account.name, account.ticket, account.held()})
		}
	}
}

// hold sets the tickets of a request that was decided, and notes what it holds.
func (b *Bare) noteHeld(r *request, charges []backends.Charge, out []limits.Decision) {
	allowed := true
	for i := range charges {
		allowed = allowed && (charges[i].Shadow || out[i].Allowed)
	}
	for i, owner := range r.accountOf {
		a, ch, d := &r.accounts[owner], &charges[i], &out[i]
		if !allowed || !d.Allowed || ch.Cost == 0 || !a.limit.Held || d.Source == limits.SourceNotAsked {
			continue
		}
		// The ids of shadow charges follow those of the others.
		d.Ticket = a.ticket
		if ch.Shadow {
			d.Ticket += a.Enforced
		}
		for j := range i {
			if r.accountOf[j] == owner && charges[j].Shadow == ch.Shadow {
				d.Ticket += charges[j].Cost
			}
		}
		b.holds.add(idRange{a.name, d.Ticket, ch.Cost})
	}
}
