package client

import "time"

// opening is the request that goes first: nothing is known of its bucket, or nothing was left. The
// others wait for its answer.
type opening struct {
	answered bool // an answer has arrived
	open     bool // a request that goes first is in flight
	first    ticket
	took     time.Duration // latency of the last answer that was no denial
	ramp     instant       // until then a bucket that tells nothing lets few requests start
}

// The others wait for a second at most. If the first one goes first because nothing was left, they
// may wait longer: a server with a queue answers late, and denies what comes meanwhile.
const (
	patience     = time.Second
	mostPatience = 10 * time.Second
)

// ramp is how many requests are in flight in the second after the first answer, if that tells no
// limit; and one more for every four answers. Otherwise a silent server would deny all others at
// once.
const ramp = 20

// next returns until when the others wait.
func (o *opening) next(b *bucket, now instant) (at instant) {
	if o.open {
		patience := patience
		if b.told.empty() {
			patience = min(max(b.told.window, 2*o.took, patience), mostPatience)
		}
		if at = o.first.at + patience; at > now {
			return at
		}
	}
	if f := &b.flight; now < o.ramp && f.sent-f.answered >= ramp+f.answered/4 {
		return o.ramp
	}
	return 0
}
