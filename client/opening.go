package client

import "time"

// opening is the request that goes first, since nothing is known of a bucket or nothing was left.
// The others wait for its answer.
type opening struct {
	answered bool // an answer has arrived
	open     bool // a request that goes first is under way
	first    ticket
	took     time.Duration // the last answer that was no denial
	ramp     instant       // until then the requests of a bucket that says nothing do not go all at once
}

// Requests wait so long for the answer of the one that goes first. If it goes first because
// nothing was left, they may wait longer: a server that delays requests in a queue answers
// late, and denies those that come meanwhile.
const (
	patience     = time.Second
	mostPatience = 10 * time.Second
)

// ramp is how many requests are under way at once in the first second after the first answer,
// if that says nothing of a limit; and one more for each four answers. A server that says
// nothing would deny the others all at once.
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
