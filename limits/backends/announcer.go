package backends

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// Announcer carries denials between the denial caches of several processes. If one process sees a
// key denied, all deny it without asking the backend. See package remote; package redisbackend has
// an Announcer.
type Announcer interface {
	// Announce sends a to the other processes. It does not wait, and may drop a: the others then
	// ask the backend themselves.
	Announce(a Announcement)

	// Listen calls heard with each announcement of another process, one call at a time.
	// Announcements of this process are not heard here.
	Listen(heard func(Announcement))
}

// Announcement is a denial that one process announces to others.
type Announcement struct {
	Scope, Key string
	Limit      limits.Limit
	Cost       int64

	// Asked is when the request to the backend was sent, on the clock of this process. For a
	// listener it may be when the announcement arrived. The waits of Decision count from Asked.
	Asked    time.Time
	Decision limits.Decision
}
