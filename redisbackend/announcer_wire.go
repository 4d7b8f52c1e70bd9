package redisbackend

import (
	"encoding/binary"
	"time"

	"github.com/weir-go/weir/limits"
)

// A message is the version, the process, and announcements. Numbers are varints, instants
// microseconds of the server's clock, texts have their length in front:
//
//	scope key limit cost asked wait retry-after reset-after remaining at
//
// asked is when the question was sent, at the earliest; wait is how long the denial goes
// on from when the message was made.
const (
	announcementVersion = 1
	instanceSize        = 8
	maxAnnouncedLimit   = 256 // bytes of the text of a limit
	maxAnnouncement     = maxAnnouncedKey + maxAnnouncedLimit + 10*binary.MaxVarintLen64
	maxMessage          = 1 + instanceSize + maxTogether*maxAnnouncement // 600 KiB
)

func encodeAnnouncements(instance [instanceSize]byte, all []limits.Announcement, offset clockOffset, now time.Time) []byte {
	to := append(make([]byte, 0, 128*len(all)), announcementVersion)
	to = append(to, instance[:]...)
	for i := range all {
		a := &all[i]
		d := &a.Decision
		for _, text := range []string{a.Scope, a.Key, a.Limit.String()} {
			to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
		}
		for _, n := range []int64{
			a.Cost, offset.earliest(a.Asked), a.Asked.Add(d.RetryAfter).Sub(now).Microseconds(),
			d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Remaining, d.At,
		} {
			to = binary.AppendVarint(to, n)
		}
	}
	return to
}

// decodeAnnouncements reads a message that has arrived at an instant. No announcement is
// believed longer than its wait from then, whatever the clocks say. A message that is
// longer than those of encodeAnnouncements is not looked at.
func decodeAnnouncements(message string, offset clockOffset, arrived time.Time) (instance [instanceSize]byte, all []limits.Announcement, err error) {
	if len(message) > maxMessage {
		return instance, nil, errMessage
	}
	r := reader{rest: []byte(message)}
	if r.byte() != announcementVersion || len(r.rest) < instanceSize {
		return instance, nil, errMessage
	}
	r.rest = r.rest[copy(instance[:], r.rest):]
	for len(r.rest) > 0 {
		scope, key, text := r.text(), r.text(), r.text()
		cost, asked, left := r.number(), r.number(), r.number()
		d := limits.Decision{RetryAfter: r.wait(), ResetAfter: r.wait(), Remaining: min(max(0, r.number()), maxRemaining), At: r.number()}
		d.EffectiveWindow = d.RetryAfter
		if r.failed || asked < 0 || asked > maxInstant || d.At < 0 || d.At > maxInstant || len(all) >= maxTogether || len(scope)+len(key) > maxAnnouncedKey || len(text) > maxAnnouncedLimit {
			return instance, nil, errMessage
		}
		limit, err := limits.Parse(text)
		if err != nil {
			return instance, nil, errMessage
		}
		at := offset.local(asked)
		if latest := arrived.Add(micros(left)).Add(-d.RetryAfter); at.After(latest) {
			at = latest
		}
		if at.After(arrived) {
			at = arrived
		}
		all = append(all, limits.Announcement{Scope: scope, Key: key, Limit: limit, Cost: cost, Asked: at, Decision: d})
	}
	return instance, all, nil
}

const (
	maxInstant   = 9e15          // what instants end before: the year 2255
	maxRemaining = 1_000_000_000 // the most units of any limit
)

// maxWait is the longest wait of a message: above what any limit has, below what
// overflows.
const maxWait = 100 * 366 * 24 * time.Hour

// micros returns a number of microseconds as a wait, at most maxWait either way.
func micros(n int64) time.Duration {
	const most = int64(maxWait / time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// reader reads a message, and keeps in mind if it has failed.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) number() int64 {
	n, size := binary.Varint(r.rest)
	r.pass(size)
	return n
}

func (r *reader) wait() time.Duration {
	n := r.number()
	if n < 0 || n > int64(maxWait/time.Microsecond) {
		r.failed = true
		return 0
	}
	return micros(n)
}

func (r *reader) text() string {
	n, size := binary.Uvarint(r.rest)
	if r.pass(size); r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// pass passes over size bytes; none or fewer is a failure.
func (r *reader) pass(size int) {
	if r.failed = r.failed || size <= 0; !r.failed {
		r.rest = r.rest[size:]
	}
}
