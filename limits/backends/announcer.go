package backends

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// Announcer carries denials between the denial caches of several processes, so that a key
// that one of them has seen denied is denied by all without a question. See
// package remote. Package redisbackend has one.
type Announcer interface {
	// Announce tells the other processes of a. It does not wait, and may drop a: the others
	// then ask the backend themselves.
	Announce(a Announcement)

	// Listen has heard called with what other processes announce, one call at a time. What
	// this process announces is not heard here.
	Listen(heard func(Announcement))
}

// Announcement is a denial that one process tells others of.
type Announcement struct {
	Scope, Key string
	Limit      limits.Limit
	Cost       int64

	// Asked is when the question was sent, on the clock of this process. A listener may be
	// told when the announcement arrived instead. The waits of Decision count from Asked.
	Asked    time.Time
	Decision limits.Decision
}
