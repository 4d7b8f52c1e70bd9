package client

import (
	"math"
	"time"
)

// instant is a time since a pacer was made. time.Since reads only the monotonic clock, in half the
// time of time.Now.
type instant = time.Duration

// unknown is an instant that depends on an answer.
const unknown instant = math.MaxInt64

// flight counts the requests of a bucket that are in flight.
type flight struct {
	sent, answered uint64
	busy           int     // requests whose answers have not been read to the end
	last           instant // when the latest one started
	deniedAt       instant // when the last denial arrived
	epoch          uint64  // the first request that is not outdated
}

// flying returns how many requests have no answer yet.
func (f *flight) flying() int64 { return int64(f.sent - f.answered) }

// overlapping returns how many other requests the server may have decided after the request of tk.
// Its answer has just arrived.
//
//	10 were answered when it started; 15 have been sent by now: up to 4 others
func (f *flight) overlapping(tk ticket) int64 { return int64(f.sent - tk.answered - 1) }

// outdated reports whether request seq was sent before the last denial arrived, or before the last
// probe. Then its answer does not tell what is left now.
func (f *flight) outdated(seq uint64) bool { return seq < f.epoch }

// outdateAll makes all requests that were sent by now outdated.
func (f *flight) outdateAll() { f.epoch = f.sent + 1 }

// ticket is what a pacer remembers of a request until its answer.
type ticket struct {
	seq      uint64        // its number in the bucket: 1 is the first
	answered uint64        // how many requests of the bucket had an answer when it started
	at       instant       // when it started
	last     instant       // when the one before it started
	heldBack bool          // had to wait
	outdated bool          // when its answer arrived: see flight
	probes   bool          // told had nothing left: its answer shows whether there is more
	early    bool          // was sent before the told instant, to test it: see doubt
	claim    time.Duration // if early and told had nothing left: the wait that it tests; else 0
	since    instant       // when claim began
	tokens   *ledger       // what it has taken of limits of tokens; nil: nothing
}

// movedTo returns the ticket of a request that turns out to belong to a bucket with these requests,
// as its latest.
func (tk ticket) movedTo(f *flight) ticket {
	tk.seq, tk.answered, tk.probes = f.sent, f.answered-1, false
	return tk
}

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

// next returns until when the others wait. empty says that nothing was left, and window how long
// that was to last. atServer says that requests in flight use up what was left at a pace: their
// answers tell whether more comes at that pace, or only in the next period.
//
//	2 left, to spread over 1 s, of 240 a minute; two start, and the last answer tells: 53 s
func (o *opening) next(
	f *flight, empty, atServer bool, window time.Duration, now instant) (at instant) {
	if o.open || atServer {
		first, patience := f.last, patience
		if o.open {
			first = o.first.at
		}
		if empty {
			patience = min(max(window, 2*o.took, patience), mostPatience)
		}
		if at = first + patience; at > now {
			return at
		}
	}
	if now < o.ramp && f.sent-f.answered >= ramp+f.answered/4 {
		return o.ramp
	}
	return 0
}
