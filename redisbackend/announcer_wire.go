package redisbackend

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// message is one message of the channel, in JSON. It is written from a slice and read into an
// array: a message with too many denials costs a reader no memory.
type message[denials []*announced | [maxTogether]*announced] struct {
	Version  int     `json:"version"`
	Instance []byte  `json:"instance"`
	Denials  denials `json:"denials"`
}

// announced is a denial in a message. Scopes and keys are bytes, since they need not be UTF-8.
// Waits are microseconds from the making of the message.
type announced struct {
	Scope      []byte       `json:"scope"`
	Key        []byte       `json:"key"`
	Limit      limits.Limit `json:"limit"`
	Cost       int64        `json:"cost"`
	RetryAfter int64        `json:"retry_after"`
	ResetAfter int64        `json:"reset_after"`
	Remaining  int64        `json:"remaining"`
}

const (
	announcementVersion = 1
	instanceSize        = 8
	maxAnnouncedKey     = 4 << 10                           // bytes of scope and key; longer ones are dropped
	maxTogether         = 128                               // announcements in one message
	maxMessage          = maxTogether * 2 * maxAnnouncedKey // 1 MiB: base64 adds a third to keys

	maxRemaining = 1_000_000_000                            // the largest limit
	maxWait      = int64(100 * 366 * 24 * time.Hour / 1000) // microseconds: longer than any wait
)

var errMessage = errors.New("redisbackend: not an announcement")

func encodeAnnouncements(
	instance [instanceSize]byte, announcements []backends.Announcement, now time.Time,
) ([]byte, error) {
	m := message[[]*announced]{Version: announcementVersion, Instance: instance[:]}
	for i := range announcements {
		a := &announcements[i]
		left := func(wait time.Duration) int64 {
			return max(0, a.Asked.Add(wait).Sub(now).Microseconds())
		}
		m.Denials = append(m.Denials, &announced{
			Scope: []byte(a.Scope), Key: []byte(a.Key), Limit: a.Limit, Cost: a.Cost,
			RetryAfter: left(a.Decision.RetryAfter), ResetAfter: left(a.Decision.ResetAfter),
			Remaining: a.Decision.Remaining,
		})
	}
	return json.Marshal(&m)
}

// decodeAnnouncements reads a message that arrived at an instant. It refuses messages that are
// longer than those of encodeAnnouncements without reading them.
func decodeAnnouncements(
	text string, arrived time.Time,
) (instance [instanceSize]byte, announcements []backends.Announcement, err error) {
	var m message[[maxTogether]*announced]
	if len(text) > maxMessage || json.Unmarshal([]byte(text), &m) != nil ||
		m.Version != announcementVersion || len(m.Instance) != instanceSize || m.Denials[0] == nil {
		return instance, nil, errMessage
	}
	for _, d := range m.Denials {
		if d == nil {
			break
		}
		if !d.possible() {
			return instance, nil, errMessage
		}
		announcements = append(announcements, d.received(arrived))
	}
	return [instanceSize]byte(m.Instance), announcements, nil
}

// possible reports whether a process may announce d.
func (d *announced) possible() bool {
	return d.RetryAfter >= 0 && d.RetryAfter <= maxWait &&
		d.ResetAfter >= 0 && d.ResetAfter <= maxWait && d.Cost >= 0 &&
		len(d.Scope)+len(d.Key) <= maxAnnouncedKey && d.Limit.Validate() == nil
}

// received returns d as if this process had asked at the time of its arrival.
func (d *announced) received(arrived time.Time) backends.Announcement {
	retryAfter := time.Duration(d.RetryAfter) * time.Microsecond
	return backends.Announcement{
		Scope: string(d.Scope), Key: string(d.Key), Limit: d.Limit, Cost: d.Cost, Asked: arrived,
		Decision: limits.Decision{
			RetryAfter:      retryAfter,
			ResetAfter:      time.Duration(d.ResetAfter) * time.Microsecond,
			EffectiveWindow: retryAfter,
			Remaining:       min(max(0, d.Remaining), maxRemaining),
			At:              arrived.UnixMicro(),
		},
	}
}
