package backends

// InstanceCounter is a Backend that knows how many processes share it, even while it fails. A
// fallback in memory divides its limits by that number. A program that knows the number of its
// processes wraps its backend in one.
type InstanceCounter interface {
	// Instances returns how many processes share the backend, as far as it knows. It returns 0 if
	// it does not know. It does not wait, and is safe for concurrent use.
	Instances() int
}

// Instances returns how many processes share b, by the first [InstanceCounter] among b and the
// backends that it wraps. It returns 0 if that is not known.
func Instances(b Backend) int {
	if c, ok := As[InstanceCounter](b); ok {
		return max(0, c.Instances())
	}
	return 0
}
