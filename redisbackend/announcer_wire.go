package redisbackend

import (
	"encoding/json"
	"time"

	"github.com/weir-go/weir/limits"
)

// announcements is a message, in JSON. Scopes and keys need not be UTF-8, so they travel as bytes.
type announcements struct {
	Version  int         `json:"version"`
	Instance []byte      `json:"instance"`
	Denials  []announced `json:"denials"`
}

// heard is a message as it is read. What is more than a message has is not even looked at.
type heard struct {
	Version  int                          `json:"version"`
	Instance []byte                       `json:"instance"`
	Denials  [maxTogether]json.RawMessage `json:"denials"`
}

// announced is a denial in a message. Instants are microseconds of the server's clock, waits
// microseconds.
type announced struct {
	Scope      []byte       `json:"scope"`
	Key        []byte       `json:"key"`
	Limit      limits.Limit `json:"limit"`
	Cost       int64        `json:"cost"`
	Asked      int64        `json:"asked"` // when the question was sent, at the earliest
	Left       int64        `json:"left"`  // how long the denial goes on from when the message was made
	RetryAfter int64        `json:"retry_after"`
	ResetAfter int64        `json:"reset_after"`
	Remaining  int64        `json:"remaining"`
	At         int64        `json:"at"`
}

const (
	announcementVersion = 1
	instanceSize        = 8
	maxMessage          = maxTogether * 2 * maxAnnouncedKey // 1 MiB: base64 makes a third more of keys

	maxInstant   = 9e15                                     // what instants end before: the year 2255
	maxRemaining = 1_000_000_000                            // the most units of any limit
	maxWait      = int64(100 * 366 * 24 * time.Hour / 1000) // microseconds: above what any limit has
)

func encodeAnnouncements(instance [instanceSize]byte, all []limits.Announcement, offset clockOffset, now time.Time) ([]byte, error) {
	m := announcements{Version: announcementVersion, Instance: instance[:]}
	for i := range all {
		a := &all[i]
		d := &a.Decision
		m.Denials = append(m.Denials, announced{
			Scope: []byte(a.Scope), Key: []byte(a.Key), Limit: a.Limit, Cost: a.Cost,
			Asked: offset.earliest(a.Asked), Left: a.Asked.Add(d.RetryAfter).Sub(now).Microseconds(),
			RetryAfter: d.RetryAfter.Microseconds(), ResetAfter: d.ResetAfter.Microseconds(), Remaining: d.Remaining, At: d.At,
		})
	}
	return json.Marshal(&m)
}

// decodeAnnouncements reads a message that has arrived at an instant. No announcement is
// believed longer than it goes on from then, whatever the clocks say. A message that is
// longer than those of encodeAnnouncements is not looked at.
func decodeAnnouncements(message string, offset clockOffset, arrived time.Time) (instance [instanceSize]byte, all []limits.Announcement, err error) {
	var m heard
	if len(message) > maxMessage || json.Unmarshal([]byte(message), &m) != nil || m.Version != announcementVersion || len(m.Instance) != instanceSize {
		return instance, nil, errMessage
	}
	for _, text := range m.Denials {
		if text == nil {
			break
		}
		var d announced
		if json.Unmarshal(text, &d) != nil {
			return instance, nil, errMessage
		}
		a, possible := d.read(offset, arrived)
		if !possible {
			return instance, nil, errMessage
		}
		all = append(all, a)
	}
	return [instanceSize]byte(m.Instance), all, nil
}

// read returns the announcement as this process sees it.
func (d *announced) read(offset clockOffset, arrived time.Time) (a limits.Announcement, possible bool) {
	for _, wait := range [...]int64{d.RetryAfter, d.ResetAfter} {
		if wait < 0 || wait > maxWait {
			return a, false
		}
	}
	for _, instant := range [...]int64{d.Asked, d.At} {
		if instant < 0 || instant > maxInstant {
			return a, false
		}
	}
	if d.Cost < 0 || len(d.Scope)+len(d.Key) > maxAnnouncedKey || d.Limit.Validate() != nil {
		return a, false
	}
	retryAfter := micros(d.RetryAfter)
	asked := offset.local(d.Asked)
	for _, latest := range [...]time.Time{arrived.Add(micros(d.Left) - retryAfter), arrived} {
		if asked.After(latest) {
			asked = latest
		}
	}
	return limits.Announcement{
		Scope: string(d.Scope), Key: string(d.Key), Limit: d.Limit, Cost: d.Cost, Asked: asked,
		Decision: limits.Decision{
			RetryAfter: retryAfter, ResetAfter: micros(d.ResetAfter), EffectiveWindow: retryAfter,
			Remaining: min(max(0, d.Remaining), maxRemaining), At: d.At,
		},
	}, true
}

// micros returns a number of microseconds as a wait, at most maxWait either way.
func micros(n int64) time.Duration {
	return time.Duration(min(max(n, -maxWait), maxWait)) * time.Microsecond
}
