package remote

import (
	"log/slog"
	"time"

	"github.com/weir-go/weir/limits"
)

// Options are the options of [NewBreaker] and [NewStack]. The zero value is ready to use.
type Options struct {
	// Budget is how long a decision may take, an hour at most. 0: 50ms.
	Budget time.Duration

	// OpenFor is how long an open breaker waits before it probes the backend, and
	// between one probe and the next. 0: 1s.
	OpenFor time.Duration

	// Lease has [NewStack] put a [LeaseCache] around the breaker: busy keys are then
	// decided in this process, with units taken before. It is the Term of
	// [LeaseOptions], and has to be the same on all instances. [NewBreaker] panics if it is
	// set, since a Breaker holds nothing. 0: every decision is the backend's.
	Lease time.Duration

	// Announcer has [NewStack] tell the denial caches of other instances of denials, and
	// this one of theirs: see [DenialCacheOptions]. [NewBreaker] panics if it is set, since a
	// Breaker remembers no denials. nil: denials stay in this process.
	Announcer limits.Announcer

	// Logger logs every change once: "weir: backend degraded" as a warning, with the failure
	// and what follows, and "weir: backend recovered" as information. A backend that has never
	// decided is "weir: backend fails from the start", a second after its first failure.
	// nil: the logger that slog.Default returns at that time. To log nothing, use a
	// slog.DiscardHandler.
	Logger *slog.Logger
}
