package redisbackend

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/list"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// A unit of a concurrency limit is held in Redis under an id, and ends by itself after HoldTime.
// This process renews it until its request ends, and then releases it by its id. Renewals and
// releases may be repeated. For example, with a HoldTime of 30 s:
//
//	 0 s   a request takes a unit, which ends at 30 s
//	10 s   this process renews it after HoldTime/3: it ends at 40 s
//	20 s   the next renewal gets no answer
//	23 s   the renewal is sent again after HoldTime/10: it ends at 53 s
//	25 s   the request ends, and the unit is released
//	26 s   it is released again: a renewal might have arrived after the first release
//
// A renewal or release that fails is retried after HoldTime/30, a second at most. If this process
// crashes at 25 s, the unit counts until 53 s. A unit that was ever renewed is released twice, even
// if all renewals were answered. All holds share one timer.

const (
	defaultHoldTime = 30 * time.Second
	minHoldTime     = 3 * time.Second
	maxHoldTime     = time.Hour

	// maxUnreleased is how many units may wait for their release while the server does not answer.
	// Units beyond that end by themselves.
	maxUnreleased = 1 << 16

	// maxRetryWait bounds the wait after a renewal or release that failed.
	maxRetryWait = time.Second
)

// idRange is units of one key with consecutive ids.
type idRange struct {
	key   string // its name in Redis
	first int64  // of lent units 0: it is not known which
	count int64
	loan  wire.Loan // of lent units, which are never renewed
}

// holds is what this process holds, and what it still has to release.
type holds struct {
	servers  *servers
	holdTime time.Duration
	logger   *slog.Logger

	mu             sync.Mutex
	running        map[int64]*hold  // holds of requests that run, by the first id
	due            list.List[*hold] // to renew; all lists are ordered by dueAt
	unconfirmed    list.List[*hold] // to renew again, unless the server answers before
	retries        list.List[*hold] // to renew or release again after a failure
	secondReleases list.List[*hold] // to release a second time
	inFlight       map[*hold]int    // renewals and releases under way
	unreleased     int64            // units that wait for their release
	timer          *time.Timer
	wakesAt        time.Time // when the timer fires; zero: it does not
	closed         bool
	lostAt         time.Time // when Redis was last found to have lost units
	answered       sync.Cond // signals each end of a renewal or release
}

// hold is an idRange that a running request holds, or that is to be released.
type hold struct {
	idRange
	node         list.Node[*hold]
	list         *list.List[*hold] // nil: it is in none
	dueAt        time.Time         // in its list
	latestErrand *line.Errand      // latest renewal or release
	mayReappear  bool              // a taking or renewal may arrive after a release: release it twice
	endsBy       time.Time         // of units to release: when they end by themselves; else zero
}

func newHolds(s *servers, holdTime time.Duration, logger *slog.Logger) *holds {
	h := &holds{
		servers: s, holdTime: holdTime, logger: logger,
		running: make(map[int64]*hold), inFlight: make(map[*hold]int),
	}
	h.answered.L = &h.mu
	return h
}

// newHold returns a hold that is in no list.
func newHold(ids idRange, mayReappear bool) *hold {
	k := &hold{idRange: ids, mayReappear: mayReappear}
	k.node.Of = k
	return k
}

// errandFor returns an errand for k: a renewal while its request runs, a release afterwards.
func (h *holds) errandFor(ctx context.Context, k *hold) *line.Errand {
	if k.loan.Lends > 0 && k.first == 0 {
		var holder []byte
		if k.loan.Holder != 0 {
			holder = h.servers.encoder.AppendID(nil, k.loan, 0)
		}
		return h.servers.errand(ctx, &takeBackScript, k.key, 1, k.count, k.count, holder)
	}
	ids := make([]byte, 0, k.count*wire.IDLength)
	for j := range k.count {
		ids = h.servers.encoder.AppendID(ids, k.loan, k.first+j)
	}
	weight := 1 + int(k.count/wire.UnitsWeight)
	if !k.isForRelease() {
		lasting := h.holdTime.Microseconds()
		e := h.servers.errand(ctx, &renewScript, k.key, weight, k.count, ids, lasting)
		e.Priority = line.Renewing
		return e
	}
	return h.servers.errand(ctx, &releaseScript, k.key, weight, k.count, ids)
}

// isForRelease reports whether k is to be released. Otherwise it is renewed.
func (k *hold) isForRelease() bool { return !k.endsBy.IsZero() }

// add starts to renew units that Redis has just counted as held.
func (h *holds) add(ids idRange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	k := newHold(ids, false)
	h.running[ids.first] = k
	h.waitLocked(k, &h.due, now.Add(h.holdTime/3+h.slack()), now)
}

// slack is how much before dueAt a hold may be renewed, so that one call renews many. With a
// HoldTime of 30 s holds are due after 10.5 s, and renewed after 10 to 10.5 s.
func (h *holds) slack() time.Duration { return h.holdTime / 60 }

// waitLocked appends k, which is in no queue, to one. As each queue has one delay, it is ordered by
// dueAt.
func (h *holds) waitLocked(k *hold, queue *list.List[*hold], dueAt, now time.Time) {
	k.list, k.dueAt = queue, dueAt
	queue.Add(&k.node)
	h.wakeLocked(now, dueAt)
}

// retryLocked schedules another attempt after a renewal or release of k failed.
func (h *holds) retryLocked(k *hold, now time.Time) {
	h.waitLocked(k, &h.retries, now.Add(min(maxRetryWait, h.holdTime/30)), now)
}

func (k *hold) leaveList() {
	if k.list != nil {
		k.list.Remove(&k.node)
		k.list = nil
	}
}

// heldEnding is an ending of a concurrency limit, with its result.
type heldEnding struct {
	hold *hold
	out  *limits.Settlement
}

// releasesOf stops renewing the units of endings of concurrency limits, and returns holds for their
// release. It ignores Final: see [backends.Ending].
func (h *holds) releasesOf(
	endings []backends.Ending, out []limits.Settlement,
) (ended []heldEnding) {
	for i := range endings {
		e := &endings[i]
		if !algorithm.Of(e.Limit.Algorithm()).Held {
			continue
		}
		name := h.servers.encoder.HeldName(e.Scope, e.Key)
		ids := idRange{key: name, first: e.Ticket, count: e.Taken}
		switch {
		case e.Taken <= 0:
		case e.Lends > 0:
			ids.first, ids.loan = 0, wire.Loan{Lends: e.Lends, Holder: e.Value}
			k := newHold(ids, false)
			k.endsBy = h.lastEnd(k)
			ended = append(ended, heldEnding{k, &out[i]})
		default:
			out[i].Returned = e.Taken
			ended = append(ended, heldEnding{h.forget(ids), &out[i]})
		}
	}
	return ended
}

// recordReleases records the results of releases, in the order of their errands. One that failed is
// retried, and a hold that may reappear is released twice. If maxUnreleased units already wait, or h
// is closed, neither is done. A failed release is then the error of its ending. The units end by
// themselves.
//
// Lent units without a holder are taken back at most once: else those of another request would be.
func (h *holds) recordReleases(ended []heldEnding, errands []*line.Errand, errs []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for i, e := range ended {
		err, loan := errs[i], e.hold.loan
		if err == nil && loan.Lends > 0 {
			e.out.Returned = errands[i].Numbers[0]
		}
		if err == nil && !e.hold.mayReappear {
			continue
		}
		isUnknown := loan.Lends > 0 && loan.Holder == 0 && h.servers.lines.MayHaveRun(err)
		if !isUnknown && h.countUnreleasedLocked(e.hold) {
			h.releasedLocked(e.hold, now, err)
		} else if err != nil {
			*e.out = limits.Settlement{Err: fmt.Errorf("redisbackend: settle: %w", err)}
		}
	}
}

// forget stops renewing units. It returns a new hold for their release, since a renewal of the old
// hold may still be under way: finishLocked ignores its answer.
func (h *holds) forget(ids idRange) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := newHold(ids, false)
	ended.endsBy = h.lastEnd(ended)
	if k := h.running[ids.first]; k != nil {
		delete(h.running, ids.first)
		k.leaveList()
		h.withdrawLocked(k)
		ended.mayReappear = k.mayReappear
	}
	return ended
}

// lastEnd returns the latest instant at which the units of k, which are held now, end by themselves.
// A call that takes or renews them may still be under way.
func (h *holds) lastEnd(k *hold) time.Time {
	return time.Now().Add(2*line.CallTimeout + cmp.Or(k.loan.Lends, h.holdTime))
}

// releaseLater releases units for which no caller waits. mayReappear is true if a taking without a
// reply may arrive after the release. If maxUnreleased units already wait, or h is closed, the
// units end by themselves.
func (h *holds) releaseLater(ranges []idRange, mayReappear bool) {
	if len(ranges) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, ids := range ranges {
		k := newHold(ids, mayReappear)
		k.endsBy = h.lastEnd(k)
		if ids.count > 0 && h.countUnreleasedLocked(k) {
			h.sendLocked(now, k)
		}
	}
}

// countUnreleasedLocked adds k to the units that wait for their release. It returns false if there
// are too many, or h is closed. releasedLocked subtracts k.
func (h *holds) countUnreleasedLocked(k *hold) bool {
	if h.closed || h.unreleased+k.count > maxUnreleased {
		return false
	}
	h.unreleased += k.count
	return true
}

// releasedLocked records that a release of k ended with err. k stays counted in unreleased until
// the last release that it needs.
func (h *holds) releasedLocked(k *hold, now time.Time, err error) {
	switch {
	case err != nil && now.Before(k.endsBy):
		h.retryLocked(k, now)
	case err == nil && k.mayReappear:
		k.mayReappear = false
		h.waitLocked(k, &h.secondReleases, now.Add(line.LongestCall), now) // calls under way have ended then
	default:
		h.unreleased -= k.count
	}
}

// sendLocked renews or releases holds. Those on one server are sent together.
func (h *holds) sendLocked(now time.Time, due ...*hold) {
	jobs, holdsOf := make(map[*line.Line][]*line.Job), make(map[*line.Line][]*hold)
	for _, k := range due {
		h.withdrawLocked(k)
		e := h.errandFor(context.Background(), k)
		e.Done = func() { h.finish(k, e) }
		k.latestErrand = e
		if !k.isForRelease() {
			k.mayReappear = true // if this renewal arrives after the release
			h.waitLocked(k, &h.unconfirmed, now.Add(h.holdTime/10), now)
		}
		h.inFlight[k]++
		l, err := h.servers.lines.LineOf(line.EndedContext, k.key)
		if err != nil {
			h.finishLocked(k, now, 0, err)
			continue
		}
		e.Line = l
		jobs[l], holdsOf[l] = append(jobs[l], &e.Job), append(holdsOf[l], k)
	}
	for l, batch := range jobs {
		if err := l.Submit(now, batch...); err != nil {
			for _, k := range holdsOf[l] {
				h.finishLocked(k, now, 0, err)
			}
		}
	}
}

// withdrawLocked withdraws the latest errand of k if that still waits. So at most one errand
// of a hold waits.
func (h *holds) withdrawLocked(k *hold) {
	if e := k.latestErrand; e != nil && e.Line != nil && e.Line.Withdraw(&e.Job) {
		h.errandEndedLocked(k)
	}
}

// errandEndedLocked records the end of a renewal or release of k: answered, failed or withdrawn.
func (h *holds) errandEndedLocked(k *hold) {
	if h.inFlight[k]--; h.inFlight[k] == 0 {
		delete(h.inFlight, k)
	}
	h.answered.Broadcast()
}

// finish handles the answer to a renewal or release of k.
func (h *holds) finish(k *hold, e *line.Errand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	unknown := int64(0)
	if e.Err == nil {
		unknown = e.Numbers[0]
	}
	h.finishLocked(k, time.Now(), unknown, e.Err)
}

// finishLocked handles the end of a renewal or release of k. unknown is how many of its units
// Redis did not know.
func (h *holds) finishLocked(k *hold, now time.Time, unknown int64, err error) {
	h.errandEndedLocked(k)
	switch {
	case k.isForRelease():
		h.releasedLocked(k, now, err)
	case h.running[k.first] != k: // its request has ended: another hold releases the units
	case err != nil:
		// Retry it sooner than unconfirmed does, unless another renewal has succeeded, so that k has
		// left that queue, or is in flight.
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

// wakeLocked sets the timer to fire at an instant or earlier.
func (h *holds) wakeLocked(now, at time.Time) {
	wakesEarlier := !h.wakesAt.IsZero() && !h.wakesAt.After(at)
	if h.closed || wakesEarlier {
		return
	}
	h.wakesAt = at
	if h.timer == nil {
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

// runLocked sends all holds that are due, and sets the timer for the rest.
func (h *holds) runLocked(now time.Time) {
	if h.closed {
		return
	}
	if n := h.due.First; n != nil && !n.Of.dueAt.After(now) {
		h.sendDueLocked(&h.due, now.Add(h.slack()), now) // and others that are due soon, in one call
	}
	h.sendDueLocked(&h.unconfirmed, now, now)
	h.sendDueLocked(&h.retries, now, now)
	h.sendDueLocked(&h.secondReleases, now, now)
	for _, queue := range [...]*list.List[*hold]{
		&h.due, &h.unconfirmed, &h.retries, &h.secondReleases,
	} {
		if queue.First != nil {
			h.wakeLocked(now, queue.First.Of.dueAt)
		}
	}
}

// sendDueLocked sends the holds of a queue that are due by an instant.
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

// restoreLocked renews at once all holds that are not due yet: Redis has lost units, or this
// process did not run for HoldTime. Until all are renewed, other renewals find lost units, too. So
// restoreLocked acts once in HoldTime/3 at most.
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
		logger.Warn("weir: Redis has lost units that are held, or this process slept: renewing all", "holds", n)
	}(h.logger, len(h.running))
}

// close sends waiting releases once, and stops all renewals and retries.
func (h *holds) close() {
	ctx, cancel := context.WithTimeout(context.Background(), settleBudget)
	defer cancel()
	h.mu.Lock()
	if h.closed = true; h.timer != nil {
		h.timer.Stop()
	}
	var errands []*line.Errand
	for _, queue := range [...]*list.List[*hold]{&h.retries, &h.secondReleases} {
		for n := queue.First; n != nil; n = n.Next {
			if k := n.Of; k.isForRelease() {
				errands = append(errands, h.errandFor(ctx, k))
			}
		}
	}
	h.mu.Unlock()
	h.servers.lines.SendAll(ctx, errands)
	h.waitForReleases(ctx)
}

// waitForReleases waits until no renewal or release is under way, or ctx ends.
func (h *holds) waitForReleases(ctx context.Context) {
	waitUntil(ctx, &h.answered, func() bool { return len(h.inFlight) == 0 })
}

// waitUntil waits until done returns true or ctx ends. It calls done with the lock of changed.
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
