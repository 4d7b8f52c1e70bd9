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

	givesBack bool // the request is to have taken nothing
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
		text = fmt.Sprintf("g %d 0 %d %016x", e.Taken, ticket, e.Value)
	case e.givesBack:
		text = fmt.Sprintf("g %d 0 %d", e.Taken, ticket)
	case e.Encoded.Values: // its ticket is the whole instant: the value tells states apart
		text = fmt.Sprintf("r %d %d %d %016x", e.Taken, e.Final, ticket, e.Value)
	default:
		at, serial := ticket&ticketMask, ticket>>ticketBits
		text = fmt.Sprintf("r %d %d %d %d", e.Taken-e.Final, e.Final, at, serial)
	}
	return []any{e.Encoded.text, text}
}

// A ticket is the serial of the state that a taking left, and below it 46 bits of the taking's
// instant, which wrap after two years. For a sliding window they are the number of its window. A
// state that began, was converted or was rebased since has another serial, and nothing is returned
// to it: the units in use there belong to other takings.
const (
	ticketBits = 46
	ticketMask = 1<<ticketBits - 1
)

func ticketOf(at, serial int64) int64 { return serial<<ticketBits | at&ticketMask }
