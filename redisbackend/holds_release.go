package redisbackend

import (
	"context"
	"time"

	"github.com/weir-go/weir/limits"
)

// releaseHolds releases the units of endings of concurrency limits, and ignores others.
// What a server does not confirm is released later. It returns an error if that is not
// possible: the units then end by themselves.
func (b *Backend) releaseHolds(ctx context.Context, endings []limits.Ending) error {
	spans := make([]span, 0, len(endings))
	for i := range endings {
		if e := &endings[i]; e.Limit.Algorithm() == limits.AlgorithmConcurrent && e.Taken > 0 {
			spans = append(spans, span{b.heldName(e.Scope, e.Key), e.Ticket, e.Taken})
		}
	}
	if len(spans) == 0 {
		return nil
	}
	doubtful := b.holds.forget(spans)
	errs := b.holds.sender.release(ctx, spans)
	var failed, failedInDoubt, inDoubt []span
	var latest error
	for i, err := range errs {
		switch doubtful := doubtful != nil && doubtful[i]; {
		case err != nil && doubtful:
			latest, failedInDoubt = err, append(failedInDoubt, spans[i])
		case err != nil:
			latest, failed = err, append(failed, spans[i])
		case doubtful:
			inDoubt = append(inDoubt, spans[i])
		}
	}
	if len(inDoubt) > 0 { // if that is not possible, they end by themselves
		b.holds.releaseAfter(callTimeout, inDoubt, false)
	}
	all := len(failed) == 0 || b.holds.releaseLater(failed, false)
	if len(failedInDoubt) > 0 {
		all = b.holds.releaseLater(failedInDoubt, true) && all
	}
	if !all {
		return latest
	}
	return nil
}

// releaseLater has spans released that nobody waits for. again says that a call without a
// reply may still add them. It reports whether all will be released.
func (h *holds) releaseLater(spans []span, again bool) bool {
	return h.releaseAfter(0, spans, again)
}

// releaseAfter is releaseLater, not before a wait is over.
func (h *holds) releaseAfter(wait time.Duration, spans []span, again bool) bool {
	now := time.Now()
	at := now.Add(wait)
	h.mu.Lock()
	defer h.mu.Unlock()
	all := true
	for _, s := range spans {
		all = h.addUnreleasedLocked(unreleased{span: s, at: at, until: at.Add(h.time + 2*callTimeout), again: again}) && all
	}
	if len(h.unreleased) > 0 {
		h.wakeLocked(&h.releases, now, at)
	}
	return all
}

func (h *holds) addUnreleasedLocked(u unreleased) bool {
	switch {
	case u.n == 0:
		return true
	case h.closed:
		return false
	case h.units+u.n > maxUnreleased:
		h.dropped += u.n
		return false
	}
	h.units += u.n
	h.unreleased = append(h.unreleased, u)
	return true
}

// runReleases releases what waits.
func (h *holds) runReleases() {
	h.perform(&h.releases, func(now time.Time) (answered, any bool) {
		if release := h.nextReleases(now); release != nil {
			return h.releaseAll(release), true
		}
		return false, false
	})
}

// nextReleases returns what is to be released. If nothing is, it sets the timer for what
// follows.
func (h *holds) nextReleases(now time.Time) (release []unreleased) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mayTryLocked(&h.releases, now) {
		release = h.takeUnreleasedLocked(now)
	}
	if release != nil {
		return release
	}
	h.releases.running = false
	for _, u := range h.unreleased {
		h.wakeLocked(&h.releases, now, u.at)
	}
	return nil
}

// takeUnreleasedLocked removes what is to be released now, and forgets what has ended.
func (h *holds) takeUnreleasedLocked(now time.Time) (release []unreleased) {
	var rest []unreleased
	h.units = 0
	for _, u := range h.unreleased {
		switch {
		case now.After(u.until):
		case u.at.After(now):
			rest = append(rest, u)
			h.units += u.n
		default:
			release = append(release, u)
		}
	}
	h.unreleased = rest
	if h.dropped > 0 && rest == nil {
		h.log("weir: too many held units waited for their release: some are counted until their time is over", "units", h.dropped)
		h.dropped = 0
	}
	return release
}

// releaseAll releases what waits, and keeps what failed. It reports whether all servers
// answered.
func (h *holds) releaseAll(all []unreleased) (answered bool) {
	spans := make([]span, len(all))
	for i := range all {
		spans[i] = all[i].span
	}
	_, errs := h.sender.send(context.Background(), releaseScript, nil, spans)
	h.mu.Lock()
	defer h.mu.Unlock()
	answered = true
	for i, u := range all {
		switch {
		case errs[i] != nil:
			answered = false
		case u.again:
			u.again, u.at = false, time.Now().Add(callTimeout)
		default:
			continue
		}
		h.addUnreleasedLocked(u)
	}
	return answered
}

// releaseNow releases what waits to be released, once.
func (h *holds) releaseNow() {
	h.mu.Lock()
	release := h.takeUnreleasedLocked(time.Now())
	h.mu.Unlock()
	h.releaseAll(release)
}
