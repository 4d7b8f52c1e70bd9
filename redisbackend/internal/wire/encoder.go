package wire

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/limits/backends"
)

// Encoder writes what a backend sends to its scripts.
type Encoder struct {
	Names
	Limits
	IDs
}

// NewEncoder returns an encoder for the states under a prefix, which may be followed by a hash tag.
// The states that one key has in the scopes together share a slot. holdTime is how long a unit of a
// concurrency limit is held. The arguments are valid.
func NewEncoder(prefix, hashTag string, together []string, holdTime time.Duration) *Encoder {
	e := &Encoder{Names: newNames(prefix, hashTag, together)}
	e.IDs.begin()
	e.SetHoldTime(holdTime)
	return e
}

// SetHoldTime sets how long a unit of a concurrency limit is held. No limit has been encoded yet.
func (e *Encoder) SetHoldTime(holdTime time.Duration) {
	e.Limits.holdTime = holdTime
	e.IDs.setHoldTime(holdTime)
}

// Ending returns the ending of a taking whose limit is no concurrency limit. instant is as for
// [Limits.Encode].
func (e *Encoder) Ending(of *backends.Ending, instant int64) (Ending, error) {
	encoded, err := e.Encode(of.Limit, instant)
	if err != nil {
		return Ending{}, fmt.Errorf("redisbackend: limit of scope %q: %w", of.Scope, err)
	}
	ending := Ending{Ending: *of, Encoded: encoded}
	ending.Name = e.Name(encoded.Kind, of.Scope, of.Key)
	return ending, nil
}
