package redisbackend

import (
	"context"
	"log/slog"
	"time"
)

// slack is how long after the soonest renewal is due the goroutine wakes, so that it
// renews many at once.
func (h *holds) slack() time.Duration { return h.time / 60 }

// runRenewals renews what is due.
func (h *holds) runRenewals() {
	h.perform(&h.renewals, func(now time.Time) (answered, any bool) {
		if renew := h.nextRenewals(now); renew != nil {
			return h.renewAll(renew, now), true
		}
		return false, false
	})
}

// nextRenewals returns what is due. If nothing is, it sets the timer for what follows.
func (h *holds) nextRenewals(now time.Time) (renew []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mayTryLocked(&h.renewals, now) {
		for k := h.due.First; k != nil && !k.Of.dueAt.After(now); k = h.due.First {
			h.due.Remove(k)
			k.Of.renewing = true
			renew = append(renew, k.Of)
		}
	}
	if renew != nil {
		return renew
	}
	h.renewals.running = false
	if k := h.due.First; k != nil {
		h.wakeLocked(&h.renewals, now, k.Of.dueAt.Add(h.slack()))
	}
	return nil
}

// renewAll renews holds, at an instant. It reports whether all servers answered.
func (h *holds) renewAll(all []*hold, now time.Time) (answered bool) {
	if len(all) == 0 {
		return true
	}
	spans := make([]span, len(all))
	for i, k := range all {
		spans[i] = k.span
	}
	calls, errs := h.sender.send(context.Background(), renewScript, h.renewArguments(), spans)
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := false
	for _, c := range calls {
		if c.err == nil {
			unknown, _ := c.reply.Int64()
			lost = lost || unknown > h.mayBeUnknownLocked(c, all)
		}
	}
	answered = true
	for i := len(all) - 1; i >= 0; i-- { // what failed goes to the front, in its order
		k := all[i]
		k.renewing = false
		k.doubtful = k.doubtful || mayHaveRun(errs[i])
		switch {
		case k.released:
			h.wakeLocked(&h.releases, now, now)
			h.addUnreleasedLocked(unreleased{span: k.span, at: now, until: now.Add(h.time + 2*callTimeout), again: k.doubtful})
		case errs[i] != nil:
			h.due.AddFirst(&k.node)
		}
		answered = answered && errs[i] == nil
	}
	for i, k := range all {
		if !k.released && errs[i] == nil {
			k.dueAt, k.knownAt = now.Add(h.time/3), now
			h.due.Add(&k.node)
		}
	}
	if lost {
		h.restoreLocked()
	}
	return answered
}

// mayBeUnknownLocked returns how many units of a renewal the server need not know: those
// that were released meanwhile, and those that it was not asked about since it lost units.
func (h *holds) mayBeUnknownLocked(c *spanCall, all []*hold) (units int64) {
	for _, i := range c.spans {
		if k := all[i]; k.released || !k.knownAt.After(h.lostAt) {
			units += k.n
		}
	}
	return units
}

// restoreLocked has everything renewed at once: Redis has lost units, or this process did
// not run for as long as they are held.
func (h *holds) restoreLocked() {
	h.lostAt = time.Now()
	for k := h.due.First; k != nil; k = k.Next {
		k.Of.dueAt = h.lostAt
	}
	h.log("weir: Redis has lost units that are held: put back", "holds", len(h.of))
}

func (h *holds) log(text string, arguments ...any) {
	logger := h.logger
	if logger == nil {
		logger = slog.Default()
	}
	go func() {
		defer func() { _ = recover() }() // a panic of the logger cannot be logged
		logger.Warn(text, arguments...)
	}()
}

func (h *holds) renewArguments() []any {
	instant := any("")
	if us := h.instant(); us != 0 {
		instant = us
	}
	return []any{h.time.Microseconds(), instant}
}
