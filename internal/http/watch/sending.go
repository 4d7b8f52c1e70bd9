package watch

// Sending says which answers a framework makes or sends after its handlers have returned. A request
// with such an answer ends when it has been sent.
type Sending[R any] interface {
	// Pending reports whether the answer to request is still to be made, or sent in parts, when
	// next has returned err. watched reports whether something depends on the answer.
	Pending(request R, err error, watched bool) bool

	// OnSent calls f once, with the status and the size of the answer, when it has been sent.
	OnSent(request R, f func(status int, bytes int64))
}
