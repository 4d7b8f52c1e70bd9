package wire

import (
	"fmt"

	"github.com/weir-go/weir/limits/backends"
)

// Ending is what settle.lua is asked about one key: to return units, or to charge more of them.
type Ending struct {
	backends.Ending
	Name    string
	Encoded *Encoded

	digest    string // of the value, of a limit that counts values
	givesBack bool   // the request is to have taken nothing
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
	if encoded.Values {
		ending.digest = e.Digest(of.Scope, of.Key, of.Value)
	}
	return ending, nil
}

// giveBack returns the ending that gives back what a took, with the result r. It returns false if
// there is nothing to give back. Units of concurrency limits are released instead.
//
// The instant of a taking is that of its reply. If the clock has stepped back, the taking counts
// from a later instant, and less is returned.
func (a *Account) giveBack(r *Result) (e Ending, ok bool) {
	e = Ending{Name: a.Name, Encoded: a.Encoded, digest: a.Digest, givesBack: true}
	e.Limit, e.Taken, e.Ticket = a.Limit, a.Enforced, r.Enforced.At
	reset := r.Enforced.ResetAfter
	if a.HasShadow && r.Shadow.Allowed {
		e.Taken, reset = e.Taken+a.Shadow, r.Shadow.ResetAfter
	}
	if a.Encoded.Queues { // a queue knows takings by when their units have drained
		e.Ticket += reset.Microseconds()
	}
	e.Taken = min(e.Taken, 1<<53) // only bans take more, and their counts are full by then
	return e, e.Taken > 0 && !a.Encoded.Held
}

// Most returns the largest number that settle.lua may reply to e.
func (e *Ending) Most() int64 { return max(e.Taken-e.Final, e.Final-e.Taken) }

// Arguments returns the arguments of settle.lua about e.
func (e *Ending) Arguments() []any {
	ticket := max(0, e.Ticket)
	var text string
	switch {
	case e.Final > e.Taken:
		text = fmt.Sprintf("c %d %d", e.Final-e.Taken, max(0, e.Lasts.Microseconds()))
	case e.givesBack && e.Encoded.Values:
		text = fmt.Sprintf("g %d 0 %d %s", e.Taken, ticket, e.digest)
	case e.givesBack:
		text = fmt.Sprintf("g %d 0 %d", e.Taken, ticket)
	case e.Encoded.Values: // its ticket is the whole instant: the value tells states apart
		text = fmt.Sprintf("r %d %d %d %s", e.Taken, e.Final, ticket, e.digest)
	default:
		at, serial := ticket&ticketMask, ticket>>ticketBits
		text = fmt.Sprintf("r %d %d %d %d", e.Taken-e.Final, e.Final, at, serial)
	}
	return []any{e.Encoded.text, text}
}
