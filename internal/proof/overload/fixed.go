package overload

// Nothing sheds nothing.
type Nothing struct{}

// Enter admits the request.
func (Nothing) Enter(Request) (func(bool), bool) { return func(bool) {}, true }

// Fixed is a limit that never changes.
type Fixed struct{ Limit, inFlight int }

// Enter admits the request if fewer than Limit are in flight.
func (f *Fixed) Enter(Request) (func(bool), bool) {
	if f.inFlight >= f.Limit {
		return nil, false
	}
	f.inFlight++
	return f.leave, true
}

func (f *Fixed) leave(bool) { f.inFlight-- }
