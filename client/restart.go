package client

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"time"
)

const (
	sourceRefused = "refused connection"

	// restartTime is for how long a server that restarts may refuse connections.
	restartTime = 10 * time.Second

	wsaRefused = syscall.Errno(10061) // ECONNREFUSED of Windows
)

// isRefused reports whether err says that nothing listens, so that nothing was sent.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// restart is what a pacer knows of a server that refuses connections. It may be restarting.
type restart struct {
	since    instant // 0: connections are not refused
	latest   instant
	refusals int
}

// refuse notes a refused connection, which begins a restart or goes on with it. It returns for how
// long requests wait if this refusal counts: 0.25, 0.5, 1 and 1 seconds and so on, and up to a half
// more at random. It is over once the server has refused for restartTime.
func (r *restart) refuse(tk ticket, now instant) (wait time.Duration, over bool) {
	if r.since == 0 {
		*r = restart{since: now}
	}
	if now-r.since >= restartTime {
		return 0, true
	}
	if r.refusals == 0 || tk.at > r.latest { // refusals of requests in flight together are one
		wait = min(250*time.Millisecond<<r.refusals, time.Second)
		wait += rand.N(wait / 2)
		r.refusals = min(r.refusals+1, 2)
	}
	r.latest = now
	return wait, false
}
